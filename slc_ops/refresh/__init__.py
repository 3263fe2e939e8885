"""The weekly refresh: its steps, its files, its gate, and the ways to run it over past windows."""
