"""Compares answers of Spark with DuckDB's, row for row.

    compare.py SPARK.json 'DUCKDB-{name}.json' ANSWERS

SPARK.json is what answer.py printed. Ends with an error unless two executors took part, there are
this many answers, one of them has more than 1,000 rows, and all are equal.
"""

import json
import sys


def whole(rows):
    # A sum over BIGINT is a HUGEINT in DuckDB; real numbers are rounded as both print them.
    def value(one):
        if isinstance(one, str) and one.lstrip("-").isdigit():
            return int(one)
        return float(f"{one:.6g}") if isinstance(one, float) else one

    return [[value(one) for one in row] for row in rows]


def main(spark, duckdb, number):
    lines = [json.loads(line) for line in open(spark)]
    head, answers = lines[0], lines[1:]
    print(f"  Spark {head['spark']}, {head['executors']} executors")
    if head["executors"] != 2:
        sys.exit("fleet: two executors are expected")
    is_equal = True
    for answer in answers:
        duck = json.load(open(duckdb.format(name=answer["name"])))
        same = answer["columns"] == duck["columns"] and whole(answer["rows"]) == whole(duck["rows"])
        print(f"  {answer['name']}: {len(answer['rows'])} rows, {'equal' if same else 'DIFFERENT'}")
        if not same:
            is_equal = False
            pairs = zip(whole(answer["rows"]), whole(duck["rows"]))
            first = next((pair for pair in pairs if pair[0] != pair[1]), None)
            print(f"    Spark {len(answer['rows'])} rows, DuckDB {len(duck['rows'])}; first: {first}")
    if len(answers) != number or not any(len(answer["rows"]) > 1000 for answer in answers):
        sys.exit("fleet: too few answers to prove anything")
    if not is_equal:
        sys.exit("fleet: answers differ")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
