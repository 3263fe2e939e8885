"""From a source to a window on disk: the log's contract, sources, extraction, manifest."""
