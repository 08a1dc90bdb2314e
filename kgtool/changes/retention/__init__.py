"""A retention for each group: longer ones are kept again in time, shorter ones removed early."""
