"""The engine on Spark, its session, and what reads where only Spark can; pyspark lives here."""
