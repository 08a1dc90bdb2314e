"""TLS without blocking, and the stores that keys and certificates come from."""
