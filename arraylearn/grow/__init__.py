"""Growth of trees, for single trees, forests and boosting: one loop, and finders of splits."""
