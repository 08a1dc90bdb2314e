"""Java, and Kafka's jars from Maven Central, pinned with checksums."""
