"""Parts of ``kgtool reset-offsets``: the run, its report and its CSV files."""
