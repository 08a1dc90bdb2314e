"""Groups deleted, members removed, configs altered."""
