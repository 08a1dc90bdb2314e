"""The question before a change, and what is at stake. ``changes`` decides."""
