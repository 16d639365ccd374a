"""Prediction of every kind of tree: rows walk to leaves, and what these hold is looked up afterwards."""
