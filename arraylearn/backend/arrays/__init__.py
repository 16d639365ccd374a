"""Operations that the array API standard lacks: one contract and portable body each, native bodies beside.

Every function takes the namespace first, makes no sync, and never looks at values to choose a shape.
Out-of-range keys and segments are the caller's error; nothing here checks them, because a check would sync.
"""
