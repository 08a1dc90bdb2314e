"""A real Apache Kafka on this machine: no Docker, no root, nothing left behind.

``cluster.Sandbox`` starts, kills and stops brokers; ``seeding`` fills one with realistic groups;
``install`` finds Java and downloads Kafka's jars.
"""
