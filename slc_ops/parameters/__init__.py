"""The parameter set: model, storage, golden vectors, applying it to files."""
