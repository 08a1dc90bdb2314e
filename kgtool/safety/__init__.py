"""Changes that can be taken back: journal, undo, backups, and what is compared with them."""
