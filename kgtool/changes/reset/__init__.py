"""``reset-offsets``: targets, the plan, and its execution."""
