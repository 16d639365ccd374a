"""The search for the best literal: candidates, the rows still covered, scores, and a rule grown by them."""
