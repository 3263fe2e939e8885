"""Engines beside the local one, one package each; :func:`slc_ops.rows.engine.engine_of` imports them."""
