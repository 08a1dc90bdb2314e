"""Which groups there are, who is in them, and what may be done to them."""
