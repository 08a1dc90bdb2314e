"""The summary, and the HTML report: one file that needs no network."""
