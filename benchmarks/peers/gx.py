"""Great Expectations: every rule an expectation, all in one suite, validated over a batch of the rows.

Failing rows are the `unexpected_count` of each. No examples of failing values are asked for, which would cost it more.
"""

import great_expectations as gx
import great_expectations.expectations as gxe

from benchmarks.peers.peer_server import Failing, Measure, serve


def prepare(spark, rows, rules) -> Measure:
    """A suite in a context that keeps nothing."""

    def expectation(rule):
        own = {"meta": {"id": rule["id"]}}
        match rule["check"]:
            case "not_null":
                return gxe.ExpectColumnValuesToNotBeNull(column=rule["column"], **own)
            case "in_range":
                return gxe.ExpectColumnValuesToBeBetween(
                    column=rule["column"], min_value=rule["min"], max_value=rule["max"], **own
                )
            case "in_set":
                return gxe.ExpectColumnValuesToBeInSet(column=rule["column"], value_set=rule["values"], **own)
            case "length":
                return gxe.ExpectColumnValueLengthsToBeBetween(
                    column=rule["column"], min_value=rule["min"], max_value=rule["max"], **own
                )
            case "matches":
                return gxe.ExpectColumnValuesToMatchRegex(column=rule["column"], regex=rule["pattern"], **own)
            case "unique":
                return gxe.ExpectCompoundColumnsToBeUnique(column_list=rule["columns"], **own)
        raise ValueError(rule["check"])

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    # It persists the rows by default, as people use it.
    asset = context.data_sources.add_spark("rows").add_dataframe_asset("rows")
    batch_definition = asset.add_batch_definition_whole_dataframe("all")
    suite = gx.ExpectationSuite("rules", expectations=[expectation(rule) for rule in rules])

    def measure() -> Failing:
        batch = batch_definition.get_batch(batch_parameters={"dataframe": rows})
        result = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": 0})
        return {one.expectation_config.meta["id"]: int(one.result["unexpected_count"]) for one in result.results}

    return measure


if __name__ == "__main__":
    serve(prepare)
