"""The texts and rows of single commands."""
