"""Offsets written and deleted: commit, look, verify, in batches that fit."""
