"""Splits by category, and rows whose value is missing: parts of rows down every branch, or surrogates."""
