"""The Python API: ``GroupAdmin``, thin over ``queries`` and ``changes``."""
