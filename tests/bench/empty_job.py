"""The least that PySpark can do with the settings of analyze: a session and one empty job."""

import os
import sys

from pyspark.sql import SparkSession

from kgtool.analysis.spark.session import FAST_START, LOCAL, settings

os.environ["SPARK_LAUNCHER_OPTS"] = FAST_START
builder = SparkSession.builder.master(LOCAL)
for key, value in settings(LOCAL).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
sys.stdout.write(f"{spark.range(0).count()}\n")
spark.stop()
