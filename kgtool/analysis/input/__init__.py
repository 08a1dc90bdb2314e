"""What there is to read, in which format, and by which rules it is judged."""
