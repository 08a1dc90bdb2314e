"""A real Apache Kafka on this machine: no Docker, no root, nothing left behind.

``cluster.Sandbox`` starts, kills and stops brokers; ``seed`` fills one with the groups that an
admin really meets; ``jars`` and ``java`` find what is needed to run Kafka at all.
"""
