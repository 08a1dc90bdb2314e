"""Rows and sentences on stdout and stderr: formats, tables, colours, progress."""
