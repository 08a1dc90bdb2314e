"""One file per question an admin asks, as operations (see ``kgtool.client.ops``)."""
