"""Topics, groups and members that look like real ones."""
