"""``kgtool exporter``: the metrics of a cluster's groups for Prometheus."""
