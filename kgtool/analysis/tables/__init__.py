"""The tables, one file each: how they come from the fold of one log partition."""
