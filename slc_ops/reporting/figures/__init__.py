"""The figures of the report; titles name the content, captions explain it."""
