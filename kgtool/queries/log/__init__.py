"""What ``__consumer_offsets`` says: commit times, expiry, removals, and its export."""
