"""The command line. Nobody imports it; requests are made in ``queries`` and ``changes`` only."""
