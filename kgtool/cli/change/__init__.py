"""Shared by the commands that change a cluster: confirm, journal, canary, one run."""
