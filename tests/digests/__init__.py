"""Digests of what every learner learns and predicts: the same before and after a change."""
