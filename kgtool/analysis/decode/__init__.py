"""Bytes of segments to rows of ``schema.RECORDS``, and those as blobs that can be moved."""
