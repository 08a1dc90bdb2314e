"""When brokers remove committed offsets: the rules, and a group's life from its records."""
