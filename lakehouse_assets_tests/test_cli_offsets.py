"""`lakehouse run --offsets`: the windows that recorded some messages of a topic. No JVM and no broker."""

from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.cli import common
from lakehouse_assets.cli.offsets import windows_of_offsets
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.sources.kafka_ranges import range_to_text
from lakehouse_assets.storage.source_positions import record_positions
from lakehouse_assets_tests.e2e.streamed import table
from lakehouse_assets_tests.support import readings

FIRST = datetime(2024, 5, 1, 13, 0, 5, 123_000, tzinfo=UTC)
KEYS = [f"2024-05-01-13:00:{second:02}.123" for second in (5, 10, 15)]


@pytest.fixture
def spec(settings):
    """A stream of three windows: ten messages of partition 0 each, and five of partition 1 in the second."""
    spec = table("readings")
    for number, other in enumerate(({}, {1: (0, 5)}, {1: (5, 5)})):
        window = spec.extraction.window_at(FIRST + number * timedelta(seconds=5))
        text = range_to_text({0: (10 * number, 10 * number + 10), **other})
        record_positions(settings, "readings", {window: text}, "run", FIRST)
    return spec


@pytest.mark.parametrize(
    ("offsets", "first", "last"),
    [("0@0", 0, 0), ("0@9", 0, 0), ("0@10", 1, 1), ("0@9..10", 0, 1), ("0@0..99", 0, 2), ("1@0..99", 1, 1), ("1@4", 1, 1)],
)
def test_offsets_name_the_windows_that_have_them(settings, spec, offsets, first, last):
    assert windows_of_offsets(offsets, settings, spec) == f"{KEYS[first]}..{KEYS[last]}"


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ("0@30", "no window of readings has these messages"), ("1@5", "no window"), ("2@0", "no window"),
        ("0@5..4", "after the last"), ("0", "PARTITION@FIRST..LAST"), ("0@a", "PARTITION@"), ("-1@3", "PARTITION@"),
    ],
)  # fmt: skip
def test_what_names_no_message_is_refused(settings, spec, offsets, why):
    with pytest.raises(RefusedError, match=why):
        windows_of_offsets(offsets, settings, spec)


def test_windows_with_others_between_are_refused(settings, spec):
    window = spec.extraction.window_at(FIRST + timedelta(seconds=15))
    record_positions(settings, "readings", {window: range_to_text({1: (5, 9)})}, "run", FIRST)
    assert windows_of_offsets("0@9..10", settings, spec) == f"{KEYS[0]}..{KEYS[1]}"
    with pytest.raises(RefusedError, match=f"{KEYS[1]}, 2024-05-01-13:00:20.123, with 1 more"):
        windows_of_offsets("1@4..5", settings, spec)


def test_a_table_of_files_has_no_offsets(settings):
    with pytest.raises(RefusedError, match="reads no topic"):
        windows_of_offsets("0@1", settings, readings())


def test_the_windows_are_judged_again(settings, spec, monkeypatch):
    requests = []
    monkeypatch.setattr(cli.Settings, "from_environment", lambda: settings)
    monkeypatch.setattr(common, "select_tables", lambda _: [project_table(spec)])
    monkeypatch.setattr(common, "run_decision", lambda *request: requests.append(request))
    judged = ["run", "--table", "readings", "--because", "x", "--by", "me", "--offsets", "0@9..10"]
    result = CliRunner().invoke(cli.app, [*judged, "--rejudge"])
    assert result.exit_code == 0, result.output
    assert requests[0][1] == {"table": "readings", "first": KEYS[0], "last": KEYS[1], "by": "me", "because": "x"}
    assert KEYS[0] in result.stderr
    for others in (judged, [*judged, "--rejudge", "--window", KEYS[0]]):
        result = CliRunner().invoke(cli.app, others)
        assert isinstance(result.exception, RefusedError)
        assert "--offsets" in str(result.exception)
    assert len(requests) == 1


def project_table(spec):
    """A table as the project has it."""
    return type("Table", (), {"spec": spec})()
