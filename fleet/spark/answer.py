"""Answers questions about a tree of flow records on a Spark cluster.

    spark-submit --master spark://HOST:7077 answer.py TREE NAME=FILE.sql...

Each FILE has one SELECT over the view `flows`, as `burstline query NAME TREE --show` prints it.
Standard output gets a line of JSON for each: the name, the columns, the rows, and how long it took.
docs/fleet.md says how to start a master and workers.
"""

import decimal
import json
import sys
import time

from pyspark.sql import SparkSession


def plain(value):
    """As burstline query --json has it."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def main(tree, questions):
    session = SparkSession.builder.appName("burstline flows").getOrCreate()
    # Names of hours are numbers, and those of sensors stay texts even where they look like numbers.
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    # Columns that a newer version added are null in files of an older one.
    records = session.read.option("mergeSchema", "true").parquet(tree)
    records.createOrReplaceTempView("flows")
    # Which executors did the work; the driver does not count as one.
    context = session.sparkContext._jsc.sc()
    executors = context.getExecutorMemoryStatus().size() - 1
    print(json.dumps({"executors": executors, "spark": session.version}), flush=True)
    for question in questions:
        name, path = question.split("=", 1)
        with open(path) as file:
            answer = session.sql(file.read())
        begun = time.monotonic()
        rows = [[plain(value) for value in row] for row in answer.collect()]
        line = {"name": name, "columns": answer.columns, "rows": rows}
        line["seconds"] = time.monotonic() - begun
        print(json.dumps(line), flush=True)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
