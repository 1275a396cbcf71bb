"""The plan of a migration, pure: which steps, what each rewrites, and what is refused.

Belongs here: two lists of columns and what comes of them. Does not: carrying a plan out (layers, orchestration).
"""

import pytest

from lakehouse_assets.decisions.schema.migration import irreversible, migration

TABLE = [("id", "int"), ("old", "string"), ("gone", "date"), ("p_extracted_at", "timestamp")]
PROMISED = [("id", "bigint"), ("new", "string"), ("p_extracted_at", "timestamp"), ("note", "string")]


def plan_steps(table=TABLE, promised=PROMISED, renames=(), filled=(), **more):
    steps = migration(table, promised, dict(renames), set(filled), **more)
    return [(step.action, step.column, step.becomes, step.rewrites) for step in steps]


def test_every_kind_of_step_in_the_order_in_which_they_read():
    assert plan_steps(renames=[("old", "new")]) == [
        ("rename", "old", "new", True), ("drop", "gone", "", True), ("widen", "id", "bigint", True),
        ("add", "note", "string", False),
    ]  # fmt: skip
    assert plan_steps([("id", "bigint")], [("id", "string")]) == [("rewrite", "id", "string", True)]


def test_a_column_is_added_without_touching_rows_only_at_the_end_and_where_there_are_no_values():
    assert plan_steps([("id", "int")], [("id", "int"), ("a", "int")]) == [("add", "a", "int", False)]
    assert plan_steps([("id", "int")], [("id", "int"), ("a", "int")], filled={"a"}) == [("add", "a", "int", True)]
    assert plan_steps([("id", "int")], [("a", "int"), ("id", "int")]) == [("add", "a", "int", True)]


def test_only_differences_in_order_or_values_need_a_step():
    same = [("id", "int"), ("a", "int")]
    assert plan_steps(same, same) == []
    assert plan_steps(same, same[::-1]) == [("rewrite", "*", "", True)]
    assert plan_steps(same, same, same_values=False) == [("rewrite", "*", "", True)]


@pytest.mark.parametrize(("rename", "message"), [(("x", "new"), "no column 'x'"), (("old", "x"), "'x' has to be declared")])
def test_a_rename_of_a_missing_column_is_refused(rename, message):
    with pytest.raises(ValueError, match=message):
        plan_steps(renames=[rename])


def test_a_rename_is_of_one_column_that_is_no_longer_declared():
    table = [("a", "int"), ("b", "int")]
    with pytest.raises(ValueError, match="make the same column"):
        plan_steps(table, [("n", "int")], renames=[("a", "n"), ("b", "n")])
    with pytest.raises(ValueError, match="'a' is still declared"):
        plan_steps(table, [("a", "int"), ("b", "int"), ("n", "int")], renames=[("a", "n")])


def test_a_column_that_no_source_brought_has_no_way_back():
    table = [("id", "int"), ("level", "double"), ("by_hand", "string")]
    steps = migration(table, [("id", "int")], {}, (), foreign={"by_hand"})
    assert [(step.column, step.reversible) for step in steps] == [("level", True), ("by_hand", False)]
    assert irreversible(steps) == ["by_hand"]
    assert "its values are lost" in steps[1].why
    renamed = migration([("by_hand", "int")], [("n", "int")], {"by_hand": "n"}, {"n"}, foreign={"by_hand"})
    assert irreversible(renamed) == ["by_hand"]


def test_a_struct_that_grows_is_widened_and_loses_nothing():
    grown = plan_steps([("s", "struct<a: int>")], [("s", "struct<a: bigint, b: string>")])
    assert grown == [("widen", "s", "struct<a: bigint, b: string>", True)]
    assert plan_steps([("s", "struct<a: int>")], [("s", "struct<a: string>")])[0][0] == "rewrite"


def test_values_under_a_name_that_is_no_longer_read_are_a_step_of_their_own():
    same = [("id", "int"), ("status", "string")]
    steps = migration(same, same, {}, ("id",), same_values=False, unread={"status": "2 accepted window(s) have 'Status'"})
    assert [(step.column, step.why) for step in steps if step.column != "*"] == [
        ("status", "2 accepted window(s) have 'Status'")
    ]


def test_numbers_that_are_read_with_other_marks_are_a_reason_of_the_step_that_makes_all_values_anew():
    same = [("id", "int"), ("value", "double")]
    [step] = migration(same, same, {}, ("id",), same_values=False, unread={"*": "2 accepted window(s)"})
    assert (step.action, step.column) == ("rewrite", "*")
    assert step.why.startswith("the table was made by another contract") and step.why.endswith("; 2 accepted window(s)")


def test_a_changed_key_is_in_the_plan_beside_other_steps():
    names = [("id", "int"), ("n", "int")]
    steps = migration([("id", "int")], names, {}, (), same_values=False)
    assert [(step.action, step.column, step.rewrites) for step in steps] == [("rewrite", "*", True), ("add", "n", False)]
    # Another column makes another contract, too: the step is true of both.
    assert "other columns, keys" in steps[0].why
    steps = migration([("id", "int")], [("id", "string")], {}, (), same_values=False)
    assert [(step.action, step.column) for step in steps] == [("rewrite", "id"), ("rewrite", "*")]
    moved = migration(names, names[::-1], {}, set(), same_values=False)
    assert [(step.action, "keys" in step.why) for step in moved] == [("rewrite", True)]
