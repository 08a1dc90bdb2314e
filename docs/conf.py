"""Sphinx configuration: ``make docs`` builds HTML, and a warning is an error."""

project = "kgtool"
extensions: list[str] = []
html_theme = "alabaster"
html_theme_options = {
    "description": "Kafka consumer groups and their committed offsets",
    "page_width": "1240px",  # a block of 100 columns is not cut
    "body_max_width": "none",
}
exclude_patterns = ["_build", "include"]
