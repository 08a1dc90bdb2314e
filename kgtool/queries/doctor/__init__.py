"""Facts, one file a kind of finding, and the findings of ``kgtool doctor``."""
