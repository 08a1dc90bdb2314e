"""Brokers, coordinators, transactions, and what this login may do."""
