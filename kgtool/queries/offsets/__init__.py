"""Committed offsets, the logs that they point into, and lag."""
