"""One partition of the log, folded in numpy: no shuffle, no window, no join."""
