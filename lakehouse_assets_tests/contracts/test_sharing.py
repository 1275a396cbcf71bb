"""What tables share: packs, defaults, variables. Pure: written attributes → whole ones, or what is wrong and where."""

import pytest

from lakehouse_assets.contracts.sharing import CheckOrigin, Defaults, Pack, Shared, SharingError, resolve_attributes

TABLE = {"name": "t", "columns": {"lat": "double", "lon": "double", "a_id": "string", "b_id": "string"}}
PACKS = {
    "position": Pack(
        parameters={"latitude": "lat", "longitude": None},
        checks=(
            {"check": "latitude", "column": "${latitude}"},
            {"check": "longitude", "column": "${longitude}", "description": "of ${latitude} and ${LANE}"},
        ),
    ),
    "ids": Pack(
        parameters={"most": 9}, checks=({"check": "length", "column": "${column}", "max": "${most}", "for_columns": "*_id"},)
    ),
    "same": Pack(checks=({"check": "not_null", "column": "${column}", "name": "there", "for_columns": "*_id"},)),
    "wrong": Pack(checks=({"check": "length", "column": "a_id"},)),
    "typo": Pack(checks=({"check": "not_null", "column": "${colum}"},)),
}
SHARED = Shared(Defaults(), PACKS, {"LANE": "north", "MOST": "4"})


def checks(*packs, shared=SHARED, own=()):
    return resolve_attributes({**TABLE, "packs": list(packs), "checks": list(own)}, shared)


def test_checks_of_a_pack_come_before_the_tables_own():
    resolved = checks({"pack": "position", "with": {"longitude": "lon"}}, "ids", own=[{"check": "not_empty"}])
    assert resolved.attributes["checks"] == [
        {"check": "latitude", "column": "lat"},
        {"check": "longitude", "column": "lon", "description": "of lat and north"},
        {"check": "length", "column": "a_id", "max": 9},
        {"check": "length", "column": "b_id", "max": 9},
        {"check": "not_empty"},
    ]
    assert "packs" not in resolved.attributes
    assert resolved.origins[("checks",)] == (
        CheckOrigin(0, "position"), CheckOrigin(1, "position"), CheckOrigin(0, "ids"), CheckOrigin(0, "ids"), CheckOrigin(0),
    )  # fmt: skip


def test_overrides_change_a_pack_for_one_table():
    use = {"pack": "ids", "with": {"most": 5}, "override": {"length_a_id": {"severity": "info"}}, "without": ["length_b_id"]}
    assert checks(use).attributes["checks"] == [{"check": "length", "column": "a_id", "max": 5, "severity": "info"}]


@pytest.mark.parametrize(
    ("use", "keys", "message"),
    [
        ("none", ("packs", 0), "there is no pack 'none'; there are position, ids"),
        ({"pack": "ids", "whit": {}}, ("packs", 0, "whit"), "not known here"),
        ({"with": {}}, ("packs", 0, "pack"), "Field required"),
        ("position", ("packs", 0, "with"), "pack position needs longitude"),
        ({"pack": "ids", "with": {"least": 1}}, ("packs", 0, "with"), "no parameter least; there are most"),
        (
            {"pack": "ids", "override": {"length_c_id": {}}},
            ("packs", 0, "override"),
            "makes no check length_c_id here; it makes length_a_id",
        ),
        ({"pack": "ids", "without": ["x"]}, ("packs", 0, "without"), "makes no check x here"),
        ({"pack": "ids", "without": ["length_a_id", "length_b_id"]}, ("packs", 0), "makes no check in this table"),
        ("same", ("packs", 0), "makes two checks 'there'"),
        ("wrong", ("packs", 0), "check 0 of pack wrong (length): length needs min, max or both"),
        ("typo", ("packs", 0, "column"), "${colum} is no parameter of the pack"),
        (["ids"], ("packs", 0), "keys with values are wanted"),
    ],
    ids=str,
)
def test_an_invalid_use_of_a_pack_is_refused(use, keys, message):
    with pytest.raises(SharingError) as refused:
        checks(use)
    assert (refused.value.keys, message in refused.value.text) == (keys, True), refused.value.text


def test_a_pattern_that_fits_no_column_binds_to_nothing():
    with pytest.raises(SharingError, match="makes no check"):
        resolve_attributes({"columns": {"x": "int"}, "packs": ["ids"]}, SHARED)


def test_gold_has_packs_too():
    gold = [{"name": "g"}, {"name": "h", "packs": [{"pack": "position", "with": {"longitude": "x"}}]}]
    resolved = resolve_attributes({**TABLE, "gold": gold}, SHARED)
    assert [c["column"] for c in resolved.attributes["gold"][1]["checks"]] == ["lat", "x"]
    assert resolved.origins[("gold", 1, "checks")] == (CheckOrigin(0, "position"), CheckOrigin(1, "position"))


def test_a_tables_values_override_the_defaults():
    general = {"owners": ["team:all"], "tags": {"lane": "${LANE}"}}
    general["schema"] = {"new_columns": "quarantine", "missing_columns": "null"}
    by_kind = {"not_null": {"severity": "warning", "threshold": 0.9}, "length": {"max": "${MOST}"}}
    defaults = Defaults(tables=general, checks=by_kind)
    table = {**TABLE, "owners": ["team:own"], "schema": {"missing_columns": "keep"}, "packs": ["same_one"]}
    table["checks"] = [{"check": "not_null", "column": "lat", "threshold": 1}, {"check": "not_empty"}]
    packs = {"same_one": Pack(checks=({"check": "length", "column": "a_id"},))}
    resolved = resolve_attributes(table, Shared(defaults, packs, {"LANE": "north", "MOST": "4"})).attributes
    assert resolved["owners"] == ["team:own"]
    assert resolved["schema"] == {"new_columns": "quarantine", "missing_columns": "keep"}
    assert resolved["tags"] == {"lane": "north"}
    assert resolved["checks"] == [
        {"max": "4", "check": "length", "column": "a_id"},
        {"severity": "warning", "threshold": 1, "check": "not_null", "column": "lat"},
        {"check": "not_empty"},
    ]


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${LANE}", "north"),
        ("a ${LANE} and ${LANE}", "a north and north"),
        ("$${LANE}", "${LANE}"),
        ("a$${LANE}${LANE}", "a${LANE}north"),
        ("$LANE {LANE} $", "$LANE {LANE} $"),
        # What is no name is left: SQL refuses it by itself.
        ("${env:HOME}", "${env:HOME}"),
        ("^x{3}$", "^x{3}$"),
    ],
)
def test_variables(text, becomes):
    assert resolve_attributes({"description": text}, SHARED).attributes == {"description": becomes}


def test_a_variable_that_is_not_there_and_one_that_looks_like_yaml():
    with pytest.raises(SharingError, match="no LAKEHOUSE_VAR_HOME") as refused:
        resolve_attributes({"columns": {"a": {"unit": "${HOME}"}}}, SHARED)
    assert refused.value.keys == ("columns", "a", "unit")
    sly = Shared(variables={"X": "a}, severity: info, {b: ${LANE}", "LANE": "n"})
    # It is a text and nothing else, and is not filled in again.
    assert resolve_attributes({"description": "${X}"}, sly).attributes == {"description": "a}, severity: info, {b: ${LANE}"}


def test_resolving_leaves_its_input_unchanged():
    written = {**TABLE, "packs": ["ids"], "checks": [{"check": "not_empty"}]}
    copy = {**written, "packs": list(written["packs"]), "checks": [dict(c) for c in written["checks"]]}
    resolve_attributes(written, SHARED)
    resolve_attributes(written, SHARED)
    assert written == copy
    assert PACKS["ids"].checks[0] == {"check": "length", "column": "${column}", "max": "${most}", "for_columns": "*_id"}
