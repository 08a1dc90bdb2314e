"""``describe`` and ``--watch``: query, view, and what they show."""
