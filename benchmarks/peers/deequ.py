"""Deequ (through PyDeequ): every rule an analyzer, all in one AnalysisRunner, which shares the scan.

It measures shares; a share of all rows is turned back into rows. Where an analyzer counts a NULL as failing, the predicate
lets it pass, as Deequ's own `isContainedIn` does.
"""

import os

from benchmarks.peers.peer_server import Failing, Measure, serve

os.environ["SPARK_VERSION"] = "3.5"  # which PyDeequ asks for while it is imported
from pydeequ.analyzers import AnalysisRunner, AnalyzerContext, Completeness, Compliance, PatternMatch, Size, Uniqueness

JARS = {
    "spark.jars.packages": "com.amazon.deequ:deequ:2.0.7-spark-3.5",
    "spark.jars.excludes": "net.sourceforge.f2j:arpack_combined_all",
}


def prepare(spark, rows, rules) -> Measure:
    """The analyzers of these rules; each run measures the number of rows with them."""

    def analyzer(rule):
        column = rule.get("column")
        match rule["check"]:
            case "not_null":
                return Completeness(column)
            case "in_range":
                return Compliance(rule["id"], f"{column} IS NULL OR ({column} >= {rule['min']} AND {column} <= {rule['max']})")
            case "in_set":
                values = ", ".join(f"'{value}'" for value in rule["values"])
                return Compliance(rule["id"], f"{column} IS NULL OR {column} IN ({values})")
            case "length":
                return Compliance(rule["id"], f"{column} IS NULL OR length({column}) BETWEEN {rule['min']} AND {rule['max']}")
            case "matches":
                return PatternMatch(column, rule["pattern"])
            case "unique":
                return Uniqueness(rule["columns"])
        raise ValueError(rule["check"])

    # What Deequ calls each measurement: (name of the analyzer, instance).
    named = {"not_null": "Completeness", "matches": "PatternMatch", "unique": "Uniqueness"}

    def measure() -> Failing:
        run = AnalysisRunner(spark).onData(rows).addAnalyzer(Size())
        for rule in rules:
            run = run.addAnalyzer(analyzer(rule))
        shown = AnalyzerContext.successMetricsAsDataFrame(spark, run.run()).collect()
        shares = {(row["name"], row["instance"]): row["value"] for row in shown}
        count = shares["Size", "*"]
        failing = {}
        for rule in rules:
            instance = rule["id"] if rule["check"] not in named else rule.get("column") or ",".join(rule["columns"])
            share = shares[named.get(rule["check"], "Compliance"), instance]
            failing[rule["id"]] = round((1 - share) * count)
        return failing

    return measure


if __name__ == "__main__":
    serve(prepare, JARS)
