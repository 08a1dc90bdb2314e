"""``kgtool cleanup``: making a plan and applying it."""
