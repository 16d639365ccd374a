"""Growth on some columns, drawn for each node: forests."""
