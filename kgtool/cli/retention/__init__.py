"""Parts of ``kgtool retention``."""
