"""Growth of a single tree level by level: the finders of thresholds, and the nodes that come of them."""
