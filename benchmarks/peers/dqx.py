"""DQX, outside its vendor's platform: every rule a check of its engine, applied to the rows; the results counted by check.

It marks rows and tells no numbers: the names in its result columns are counted, which needs no other column to be written.
"""

from unittest.mock import MagicMock

from databricks.labs.dqx import check_funcs
from databricks.labs.dqx.engine import DQEngine
from databricks.labs.dqx.rule import DQDatasetRule, DQRowRule
from databricks.sdk import WorkspaceClient
from pyspark.sql import functions as F

from benchmarks.peers.peer_server import Failing, Measure, serve


def prepare(spark, rows, rules) -> Measure:
    """The checks of these rules. The client of the platform is a mock: nothing of it is needed to apply checks."""

    def check(rule):
        column = {"name": rule["id"], "column": rule.get("column")}
        match rule["check"]:
            case "not_null":
                return DQRowRule(check_func=check_funcs.is_not_null, **column)
            case "in_range":
                bounds = {"min_limit": rule["min"], "max_limit": rule["max"]}
                return DQRowRule(check_func=check_funcs.is_in_range, check_func_kwargs=bounds, **column)
            case "in_set":
                allowed = {"allowed": [F.lit(value) for value in rule["values"]]}  # a bare text is a column there
                return DQRowRule(check_func=check_funcs.is_in_list, check_func_kwargs=allowed, **column)
            case "length":
                fits = {"expression": f"length({rule['column']}) BETWEEN {rule['min']} AND {rule['max']}"}
                return DQRowRule(name=rule["id"], check_func=check_funcs.sql_expression, check_func_kwargs=fits)
            case "matches":
                return DQRowRule(check_func=check_funcs.regex_match, check_func_kwargs={"regex": rule["pattern"]}, **column)
            case "unique":
                return DQDatasetRule(name=rule["id"], check_func=check_funcs.is_unique, columns=rule["columns"])
        raise ValueError(rule["check"])

    engine = DQEngine(MagicMock(spec=WorkspaceClient), spark)
    checks = [check(rule) for rule in rules]

    def measure() -> Failing:
        marked = engine.apply_checks(rows, checks)
        named = marked.select(F.explode("_errors.name").alias("name")).groupBy("name").count().collect()
        return dict.fromkeys((rule["id"] for rule in rules), 0) | {row["name"]: row["count"] for row in named}

    return measure


if __name__ == "__main__":
    serve(prepare)
