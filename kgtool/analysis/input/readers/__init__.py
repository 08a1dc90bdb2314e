"""One file a format: what is in it, as the batches and records that ``decode`` takes."""
