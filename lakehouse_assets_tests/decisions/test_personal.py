"""Where a personal value may stand, and what is shown in its place.

Belongs here: the pure rules. Does not: errors as text (measures), or a whole run (e2e).
"""

import pytest

from lakehouse_assets.decisions import personal

PII = {"email", "born"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[CAST_INVALID_INPUT] The value 'ann'", f"[CAST_INVALID_INPUT] {personal.MASKED}"),
        ("[FAILED_READ_FILE.NO_HINT] x", f"[FAILED_READ_FILE.NO_HINT] {personal.MASKED}"),
        ("['ann'] is no number", personal.MASKED),
        ("[ANN@EXAMPLE] x", personal.MASKED),
        ("ann", personal.MASKED),
    ],
)
def test_only_the_condition_of_an_error_stays(text, shown):
    assert personal.mask_text(text) == shown
    assert personal.mask_text(shown) == shown


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("[CAST_INVALID_INPUT] x", True),
        ("JsonParseException: x", True),
        ("KeyError: 'x'", True),
        ("known was never published", False),
    ],
)
def test_an_error_of_the_project_is_shown_in_full(text, library):
    assert personal.quotes(text) is library


@pytest.mark.parametrize(
    ("check", "columns", "misplaced"),
    [
        ("cast_amount", ["amount"], True),
        ("readable_row", ["_corrupt_record"], True),
        ("key_not_null", ["id"], True),
        ("email_form", ["email"], True),
        ("compare", ["amount", "born"], True),
        ("in_range_amount", ["amount"], False),
        ("throws", [""], False),
    ],
)
def test_a_row_that_fails_this_may_have_a_personal_value_anywhere(check, columns, misplaced):
    assert personal.may_be_misplaced(check, columns, PII) is misplaced
    assert not personal.may_be_misplaced(check, columns, ()), "of a table without personal columns nothing is masked"


def test_one_such_reason_is_enough():
    assert personal.row_is_misplaced([("in_range_amount", "amount"), ("cast_age", "age")], PII)
    assert not personal.row_is_misplaced([("in_range_amount", "amount")], PII)
    assert not personal.row_is_misplaced([], PII)


@pytest.mark.parametrize(
    ("columns", "none"),
    [(["ann@example.com", "5"], True), (["EMAIL", "5"], False), (["email", "amount"], False), ([], False)],
)
def test_a_batch_without_a_header(columns, none):
    assert personal.has_no_header(columns, ["email", "amount"]) is none
    assert personal.numbered_names(["ann", "5"]) == ("unnamed_1", "unnamed_2")
