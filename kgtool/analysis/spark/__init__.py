"""The Spark engine, its session and Spark's readers. Only this folder imports pyspark."""
