"""What several commands do in the same order: look, show, ask, change, report."""
