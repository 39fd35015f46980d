"""Reads archives in Parquet with Spark, and prints a list with the changes of each as JSON.

readback_spark.py DIRECTORY...: each change once, as the documentation proposes, with the
settings that Spark has by default: the vectorized reader is on.
"""
import json
import sys

import pyspark.sql

builder = pyspark.sql.SparkSession.builder.master("local[1]")
for name, value in {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"


def read(directory):
    table = spark.read.parquet(directory + "/archive")
    changes = table.dropDuplicates(["change"]).selectExpr(
        "id", "partition_key", "operation", "lsn", "unix_seconds(ts) AS ts", "document",
        "total", "rank", "paid", "unix_millis(due) AS due", "name", "dt", "hour")
    return {"stored": table.count(), "changes": [row.asDict() for row in changes.collect()]}


json.dump([read(directory) for directory in sys.argv[1:]], sys.stdout)
print("Spark", spark.version, file=sys.stderr)
spark.stop()
