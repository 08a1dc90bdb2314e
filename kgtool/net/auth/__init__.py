"""Credentials, one file a kind; the messages are in ``protocol.sasl``."""
