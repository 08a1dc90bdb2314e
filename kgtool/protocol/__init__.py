"""Kafka's wire protocol without sockets: bytes in, bytes out, standard library only."""
