"""The refresh of a window: its steps, its files, its gate, and its runs over past windows."""
