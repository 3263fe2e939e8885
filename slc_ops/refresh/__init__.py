"""The refresh of a window: its steps, its files, its gate, and the ways to run it over past windows."""
