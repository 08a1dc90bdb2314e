"""``kgtool mcp``: a server of the Model Context Protocol on stdio."""
