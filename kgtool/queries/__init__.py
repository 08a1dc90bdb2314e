"""Reads, as operations (``client.ops``): nothing here can change a cluster."""
