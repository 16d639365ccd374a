"""Primitives that know nodes, gradients or dual variables; the families that use them will own them.

They follow the rules of `arraylearn.backend.arrays`: the namespace first, no sync, no check of values.
"""
