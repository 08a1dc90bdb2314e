"""Backups, undo (a restore from a journal), and the comparison of both with a cluster."""
