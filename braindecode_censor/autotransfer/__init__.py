"""The whole method: search, cross-validate, select."""
