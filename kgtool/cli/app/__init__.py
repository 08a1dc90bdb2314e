"""From ``sys.argv`` to a command and its exit status, in Kafka's form and in ours."""
