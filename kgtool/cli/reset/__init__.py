"""Parts of ``kgtool reset-offsets``: its report and its CSV files."""
