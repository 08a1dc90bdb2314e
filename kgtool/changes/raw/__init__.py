"""Any request by hand: the only door without a journal."""
