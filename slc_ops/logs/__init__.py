"""The log: its schema, where it comes from, and weekly windows of it."""
