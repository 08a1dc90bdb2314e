"""Changes, as operations: plan, confirm, change, report; all through ``journal``."""
