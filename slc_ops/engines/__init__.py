"""Engines beside the local one, a package each; :func:`slc_ops.rows.engine.engine_of` finds them by name."""
