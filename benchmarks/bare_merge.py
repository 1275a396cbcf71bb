"""B of the incremental benchmark: the least Spark program that MERGEs one file into a table. It imports nothing of the project.

Reads its plan as JSON from standard input; prints when the session was there and when the MERGE was committed.
"""

import json
import sys
import time

from delta.tables import DeltaTable
from pyspark.sql import SparkSession


def main() -> None:
    """Start Spark, read, cast, MERGE, stop."""
    plan = json.load(sys.stdin)
    builder = SparkSession.builder.master(plan["master"]).appName("bare")
    for key, value in plan["properties"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    moments = {"session": time.time()}
    rows = spark.read.option("header", True).csv(plan["csv"]).selectExpr(*plan["columns"])
    target = DeltaTable.forPath(spark, plan["silver"]).alias("t")
    target.merge(rows.alias("s"), plan["same"]).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    moments["merged"] = time.time()
    spark.stop()
    sys.stdout.write(json.dumps(moments) + "\n")


if __name__ == "__main__":
    main()
