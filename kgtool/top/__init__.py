"""``kgtool top``: all groups on one living screen (extra ``tui``: textual)."""
