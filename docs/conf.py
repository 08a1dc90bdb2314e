"""Sphinx configuration: ``make docs`` builds HTML, and a warning is an error."""

project = "kgtool"
extensions: list[str] = []
html_theme = "alabaster"
html_theme_options = {"description": "Kafka consumer groups and their committed offsets"}
exclude_patterns = ["_build", "include"]
