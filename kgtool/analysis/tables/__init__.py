"""The tables: how they come from the fold of one log partition."""
