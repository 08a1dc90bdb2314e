"""Credentials of SASL logins; the messages are in ``protocol.sasl``."""
