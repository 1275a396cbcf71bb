"""What checks say of other tables, judged when the definitions load: unknown tables and columns, other types, circles.

Belongs here: the pure judgement. Does not: where the mistake stands in the YAML (orchestration/test_bad_config).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.references import circle, reference_mistakes
from lakehouse_assets_tests.support import readings

SENSORS = readings(name="sensors", key=["id"], last_modified=None, columns={"id": "string", "site": "string"}, checks=[])


def mistakes(**check) -> list[str]:
    spec = readings(checks=[{"check": "not_empty"}, {"check": "foreign_key", "columns": ["sensor"], **check}])
    pairs = list(reference_mistakes(spec, {"readings": spec, "sensors": SENSORS}))
    assert all(keys == ("checks", 1) for keys, _ in pairs)
    return [text for _, text in pairs]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"table": "sensors", "to": ["id"]}, []),
        ({"table": "sensor", "to": ["id"]}, ["(foreign_key_sensor): there is no other table 'sensor'; there are sensors"]),
        ({"table": "readings"}, ["(foreign_key_sensor): there is no other table 'readings'; there are sensors"]),
        ({"table": "sensors"}, ["(foreign_key_sensor): sensors has no column 'sensor'; there are id, site"]),
        (
            {"columns": ["hour"], "table": "sensors", "to": ["id"]},
            ["(foreign_key_hour): hour is int, but sensors.id is string"],
        ),
    ],
    ids=str,
)
def test_a_foreign_key(check, message):
    assert mistakes(**check) == message


def test_a_reconciliation_names_columns_of_the_other_table_alone():
    check = {"check": "reconcile", "measure": "count(*)", "table": "sensors", "against": "sum(seats)", "by": {"sensor": "idd"}}
    spec = readings(checks=[check])
    messages = [text for _, text in reference_mistakes(spec, {"sensors": SENSORS})]
    assert [text.split("has no column ")[1].split(";")[0] for text in messages] == ["'idd'", "'seats'"]


def test_a_reconciliations_rows_are_chosen_by_columns_of_the_other_table():
    parameters = {"check": "reconcile", "measure": "count(*)", "table": "sensors", "against": "count(*)"}
    spec = readings(checks=[{**parameters, "against_where": "built >= :window_start and p_extracted_at < :window_end"}])
    (message,) = [text for _, text in reference_mistakes(spec, {"sensors": SENSORS})]
    assert message == "(reconcile_sensors): sensors has no column 'built'; there are id, site"


def test_gold_has_no_window_that_a_reconciliation_could_choose_rows_by():
    check = {"check": "reconcile", "measure": "count(*)", "table": "sensors", "against": "count(*)"}
    gold = {"name": "days", "sql": "days.sql", "key": ["day"]}
    windowless = {**gold, "checks": [{**check, "against_where": "true"}]}
    assert readings(gold=[windowless]).gold[0].checks
    of_window = {**gold, "checks": [{**check, "against_where": "built < :window_end"}]}
    with pytest.raises(ValidationError, match=r"checks.0 \(reconcile_sensors\): gold has no window, and so no :window_end"):
        readings(gold=[of_window])


def test_figures_of_personal_columns_of_another_table_are_refused():
    columns = {"id": {"type": "string", "pii": True}, "site": "string"}
    people = readings(name="sensors", key=["id"], last_modified=None, columns=columns, checks=[])
    reconciliation = {"check": "reconcile", "measure": "count(*)", "table": "sensors", "against": "max(id)"}
    key = {"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}
    # A column that is made of a personal one is personal, too.
    with_copy = {**columns, "copy": {"type": "string", "from": "id"}}
    again = readings(name="sensors", key=["id"], last_modified=None, columns=with_copy, checks=[])
    copied = {**reconciliation, "against": "max(copy)"}
    (mistake,) = reference_mistakes(readings(checks=[copied]), {"sensors": again})
    assert mistake[1].startswith("(reconcile_sensors): sensors.copy is pii")
    (mistake,) = reference_mistakes(readings(checks=[reconciliation, key]), {"sensors": people})
    assert mistake == (("checks", 0), "(reconcile_sensors): sensors.id is pii, and the check would show figures made of it")


def test_golds_columns_are_those_of_its_sql():
    query = GoldQuery("select 1", ("silver_readings",), {"sensor": "int"}, {})
    plain = {"name": "plain", "sql": "means.sql", "key": ["sensor"]}
    reads = {
        **plain,
        "name": "reads",
        "checks": [{"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}],
    }
    (mistake,) = reference_mistakes(readings(checks=[], gold=[plain, reads]), {"sensors": SENSORS}, [query, query])
    assert mistake == (("gold", 1, "checks", 0), "(foreign_key_sensor): sensor is int, but sensors.id is string")


def test_circular_references_are_listed():
    one = readings(checks=[{"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}])
    two = {**SENSORS.model_dump(by_alias=True), "checks": [{"check": "foreign_key", "columns": ["id"], "table": "readings"}]}
    assert circle([one, SENSORS]) == []
    assert set(circle([one, SENSORS.model_validate(two)])) == {"readings", "sensors"}
