"""Growth on presorted lists of rows: exact thresholds of single trees."""
