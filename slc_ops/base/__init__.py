"""Errors, atomic files, names, windows and text for people: what every other package stands on."""
