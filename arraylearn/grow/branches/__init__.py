"""Splits by category, and two ways with missing values: fractions of rows to every branch, or surrogates."""
