"""Kinds of changes, one a file: what is there, what would be done, its requests, its outcome."""
