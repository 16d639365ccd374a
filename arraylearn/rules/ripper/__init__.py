"""RIPPER: rules grown, pruned on rows held back, revised and cleaned up by description length."""
