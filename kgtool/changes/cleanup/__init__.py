"""Cleanup plans: facts, criteria, the plan file, and applying it."""
