"""The same log under other retentions, rules and check intervals."""
