"""Parts of ``kgtool analyze``: the run, the Spark session, the summary and the tables."""
