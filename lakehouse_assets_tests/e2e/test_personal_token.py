"""One unique text is put into every personal column, every position and every failure, and is then searched for in all that
was written: the terminal (Java's too), Dagster's storage, the logs of the lake, pages, alerts, events.

Belongs here: that nothing personal leaves a lake's own tables. Does not: what is masked by which function (pure tests).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lakehouse_assets.contracts.event import event_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.token_formats import add_other_formats
from lakehouse_assets_tests.e2e.traces import around, traces
from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED

TOKEN = "qzx7personal"
MAIL = f"{TOKEN}@example.com"
HEADER = "email,born,home,amount,city,age,op,updated"
NOW = "2024-02-01T00:00:00Z"
LOCATION = '"{""street"": ""%s"", ""number"": 5}"'


def row(email=MAIL, born="1980-02-03", home=LOCATION % TOKEN, amount="5", city="Bonn", age="7", op="U", updated=NOW) -> str:
    return ",".join([email, born, home, amount, city, age, op, updated])


def good(name: str = "ann") -> str:
    return row(f"{name}{MAIL}")


# What arrives, by the day of January 2024: each fails in a way of its own.
WINDOWS = {
    1: [HEADER, good("ann"), good("bob"), good("cyd")],
    2: ["amount,born,home,email,city,age,op,updated", good(), good("bob")],  # swapped header
    3: [HEADER, good(), f"{good('bob')},{TOKEN}", f"{MAIL},{TOKEN}", f'"{MAIL} is never closed'],  # cells, an unreadable line
    4: [
        HEADER,
        row(home=f'"{{""street"": {TOKEN}"'),  # nested JSON
        row(home=f'"[""{TOKEN}""]"'),
        row(email=""),  # no key
        row(updated=TOKEN),  # the order column
        row(born=TOKEN, amount=TOKEN, age=TOKEN),  # casts, of its neighbours too
        good("dan"),
    ],
    5: [HEADER, row(amount="-1", city=TOKEN, born="1999-09-09"), row(email=f"not-{TOKEN}", city=TOKEN)],  # row checks
    6: [",".join(reversed(HEADER.split(","))), good(), good("bob")],  # every value in another position
    7: [good(), good("bob"), good("lea")],  # no header: values for names of columns
    8: [HEADER, row(op="found"), row(op="found", updated="2024-02-02T00:00:00Z"), good()],  # SQL and unique fail
    9: [HEADER, row(op="D"), good("eve")],  # delete_when cannot be evaluated
    10: [HEADER, row(op="check"), good("fay")],  # a row check throws
    11: [HEADER, row(op="sql"), good("gus")],  # SQL over the batch throws
    12: [HEADER, row(op="drift"), good("hal")],  # a feature cannot be evaluated
    13: [HEADER, row(age=f"x{TOKEN}"), good("jon")],  # expr throws
    14: [HEADER, row(op="metric"), good("kim")],  # a metric throws
    15: [HEADER, row(op="late"), good("mia")],  # a check that is asked after silver throws
    16: [HEADER, row(op=TOKEN), good("nat")],  # a valid value of a text column that drift profiles
}

PEOPLE = """
type: lakehouse_assets.LakehouseTable
attributes:
  name: people
  source: {kind: files, path: "people/{window:%Y-%m-%d}.csv", format: csv}
  extraction:
    cadence: daily
    start: 2024-01-01
    end: 2024-01-17
    mode: upsert
    delete_when: "case when op = 'D' then cast(email as int) = 1 else false end"
  key: [email]
  last_modified: updated
  schema: {new_columns: evolve}
  columns:
    email: {type: string, pii: true}
    born: {type: date, pii: true}
    home: {type: "struct<street: string, number: int>", pii: true}
    amount: double
    city: string
    age: {type: string, expr: "case when value like 'x%' then cast(cast(value as int) as string) else value end"}
    op: string
    updated: timestamp
  checks:
    - {check: email, column: email}
    - {check: in_range, column: amount, min: 0, max: 10}
    - {check: in_set, column: city, values: [Bonn]}
    - {check: expression, name: throws, expr: "case when op = 'check' then cast(email as int) > 0 else true end"}
    - {check: expression, name: neighbour, expr: "born < date'1990-01-01'"}
    - check: sql
      name: sql_throws
      sql: "select * from batch where case when op = 'sql' then cast(email as int) > 0 else false end"
    - {check: sql, name: sql_finds, sql: "select email, city from batch where op = 'found'"}
    - {check: unique, columns: [email], name: once, severity: warning}
    - {check: unique, columns: [born], name: born_once, severity: warning}
    - {check: foreign_key, columns: [email], table: known, to: [mail], severity: warning}
    - {check: metric, name: oldest, sql: "max(case when op = 'metric' then cast(email as int) else 1 end)", max: 5}
    - {check: statistic, column: amount, of: mean, min: 0, max: 10}
    - check: sql
      name: late_throws
      severity: warning
      sql: "select count(*) from batch having max(case when op = 'late' then cast(email as int) else 1 end) > 5"
  drift:
    features:
      - amount
      - op
      - {name: amount_by_op, expr: amount, by: op}
      - {name: odd, expr: "case when op = 'drift' then cast(op as double) else amount end"}
  alerts: {webhooks: [HOOK]}
  gold:
    - name: contacts
      sql: contacts.sql
      key: [who]
      checks:
        - {check: in_set, column: who, values: [nobody]}
        - {check: expression, name: gold_throws, expr: "cast(who as int) > 0"}
        - {check: sql, name: gold_finds, sql: "select * from batch"}
    - {name: numbers, sql: numbers.sql, key: [city]}
"""
KNOWN_CONTACTS = """
type: lakehouse_assets.LakehouseTable
attributes:
  name: known
  source: {kind: files, path: "known/{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: 2024-01-01, end: 2024-01-02, mode: upsert}
  key: [mail]
  columns: {mail: {type: string, pii: true}}
"""
AUDIT = """
description: What is asked of people.
rules:
  - {name: no_street, columns: ["*street*"], check: {check: in_set, values: [nowhere]}, allow_unmatched: true}
  - {name: no_mail, columns: ["*mail*", "who"], check: {check: in_set, values: [nobody]}, allow_unmatched: true}
  - {name: known_city, columns: ["city"], check: {check: in_set, values: [Rome]}, allow_unmatched: true}
"""
# One process that runs the commands one after another, each as the shell would; all print on its two streams.
DRIVER = """
import json, sys
from lakehouse_assets import cli
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
session = build_session(Settings.from_environment())  # one for all: a command ends only what it has started
for command in json.loads(sys.argv[1]):
    for stream in (sys.stdout, sys.stderr):
        print("###", *command, file=stream, flush=True)
    sys.argv[1:] = command
    try:
        cli.main()
    except SystemExit as ended:
        print("### ended with", ended.code, flush=True)
"""


# What each window was to fail of, or the test would prove nothing.
FAILS = {
    (1, "born_once", "failed"),
    (2, "cast_amount", "failed"),
    (3, "readable_row", "failed"),
    *((4, check, "failed") for check in ("cast_home", "key_not_null", "cast_updated", "cast_born", "cast_amount")),
    (5, "in_set_city", "failed"),
    (5, "email_email", "failed"),
    (6, "cast_born", "failed"),
    (7, "new_columns", "failed"),
    (8, "sql_finds", "failed"),
    (9, "delete_when", "error"),
    (10, "throws", "error"),
    (11, "sql_throws", "error"),
    (12, "drift", "error"),
    (13, "cast_age", "error"),
    (14, "oldest", "error"),
    (15, "late_throws", "error"),
}


def commands() -> list[list[str]]:
    """A lake's life: what has arrived is run, looked at in every way, tried, released, discarded and audited."""
    days = {day: f"2024-01-{day:02d}" for day in WINDOWS}
    people, why = ["--table", "people"], ["--because", "try"]
    shown = [["quarantine", "show", "people", "--window", day] for day in days.values()]
    return [
        ["check", "validate"],
        ["run"],
        ["verdicts"],
        ["verdicts", "--json"],
        ["verdicts", *people, "--silver-version", "1"],
        ["quarantine", "list"],
        *shown,
        [*shown[1], "--json"],
        ["quarantine", "show", "gold_contacts"],
        ["heal", "status"],
        ["schema", "diff", "people"],
        ["check", "run", "people", "in_range_amount", "--on", "source", "--window", f"{days[4]}..{days[5]}"],
        ["check", "run", "people", "neighbour", "--on", "silver", "--window", days[1]],
        ["check", "backtest", "people", "--check", "throws", "--windows", days[10]],
        ["check", "run", "gold_contacts", "gold_throws"],
        ["check", "suggest", "people"],
        ["quarantine", "release", "people", "--window", days[9], "--override", "*", *why],
        ["quarantine", "discard", "people", "--window", days[11], *why],
        ["rebuild", "people"],
        ["run", *people, "--window", days[3], "--rejudge", *why],
        ["verify", "--rows"],
        ["verify", *people, "--mend"],
        ["verify", *people, "--restore-logs"],
        ["schema", "migrate", "people"],
        ["baseline", "show", "people"],
        ["baseline", "show", "notes", "--json"],
        ["baseline", "pin", "people", *why],
        ["baseline", "reset", "people", *why],
        ["audit-silver"],
        ["audit-gold"],
    ]


@pytest.fixture(scope="module")
def alerts() -> Iterator[tuple[str, list[str]]]:
    """The address of somebody who takes alerts and lineage, and what came there."""
    alerts_received: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alerts_received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", alerts_received
    server.shutdown()


def project(home: Path) -> Path:
    """A copy of the project with these tables and no others."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=PROJECT_ROOT, capture_output=True, check=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if name.startswith(("lakehouse_assets/", "pyproject.toml", "dagster.yaml")) and "tables/" not in name:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes((PROJECT_ROOT / name).read_bytes())
    tables = home / "lakehouse_assets" / "tables"
    for name, text in {"people": PEOPLE, "known": KNOWN_CONTACTS}.items():
        (tables / name).mkdir(parents=True)
        (tables / name / "defs.yaml").write_text(text)
    (tables / "__init__.py").write_text("")
    (tables / "people" / "contacts.sql").write_text("select email as who, city from silver_people")
    (tables / "people" / "numbers.sql").write_text("select city, max(cast(email as int)) as n from silver_people group by city")
    (home / "lakehouse_assets" / "audits" / "people.yaml").write_text(AUDIT)
    return home


def read_outcomes(settings: Settings) -> tuple[list[str], set[tuple[str, str, str]]]:
    """Each decision as the event that Kafka gets; and (window, check, status) of all that did not pass."""
    decisions = logs.decisions(settings, evidence=True)
    events = [event_of(decision).model_dump_json() for decision in decisions]
    days = {d.decision_id: f"{d.p_extracted_at:%d}" if d.p_extracted_at else d.table for d in decisions}
    return events, {(days[d.decision_id], reason.check, reason.status) for d in decisions for reason in d.reasons}


@pytest.mark.timeout(1200)  # of a machine that others use too; by itself it takes a tenth
@pytest.mark.exhaustive(seconds=300)
def test_a_personal_value_is_in_nothing_that_is_written_but_the_tables(tmp_path, alerts):
    hook, alerts_received = alerts
    home, landing, lake = project(tmp_path / "project"), tmp_path / "landing", tmp_path / "lake"
    add_other_formats(home, landing, TOKEN)
    for table, windows in {"people": WINDOWS, "known": {1: ["mail", f"another{MAIL}"]}}.items():
        (landing / table).mkdir(parents=True)
        for day, lines in windows.items():
            (landing / table / f"2024-01-{day:02d}.csv").write_text("\n".join(lines) + "\n")
    (home / "spark.conf").write_text(SHORT_LIVED + FOR_THREE_ROWS + "spark.sql.shuffle.partitions 2\n")
    environment = {
        "LAKEHOUSE_ROOT": str(lake), "LAKEHOUSE_LANDING": str(landing), "DAGSTER_HOME": str(home), "PYTHONPATH": str(home),
        "LAKEHOUSE_SPARK_CONF": str(home / "spark.conf"), "LAKEHOUSE_SPARK_MASTER": "local[2]",
        "LAKEHOUSE_SECRET_HOOK": hook, "LAKEHOUSE_OPENLINEAGE_URL": hook, "COLUMNS": "300",
    }  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(commands())],
        cwd=home, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    events, failures = read_outcomes(Settings(root=str(lake), landing=str(landing), dagster_home=home))
    leaks = {}
    for name, text in {
        "stdout": process.stdout,
        "stderr": process.stderr,
        "alerts": str(alerts_received),
        "events": str(events),
    }.items():
        for part in text.split("\n### "):
            if context := around(part, TOKEN):
                leaks[f"{name} of {part.splitlines()[0][:80]}"] = context
    tables = [lake / layer for layer in ("bronze", "silver", "gold", "quarantine")]
    leaks |= {f"lake/{name}": context for name, context in traces(lake, TOKEN, tables).items()}
    leaks |= {f"home/{name}": context for name, context in traces(home, TOKEN).items()}
    assert not leaks, json.dumps(leaks, indent=2)
    # It was there, and it was met.
    assert traces(lake, TOKEN).keys() >= {
        str(next((lake / layer).rglob("*.parquet")).relative_to(lake)) for layer in ("bronze/people", "quarantine/people")
    }
    missing = {(f"{day:02d}", check, status) for day, check, status in FAILS} - failures
    assert not missing, process.stderr[-3000:]
    assert ("gold_contacts", "gold_throws", "error") in failures
    lineage = [text for text in alerts_received if '"lakehouse_decision"' in text]
    assert any("silver_people__checks" in text for text in lineage) and len(lineage) < len(alerts_received)
    output = process.stdout + process.stderr
    assert "gold_numbers: [CAST_INVALID_INPUT] (masked: pii)" in output
    codes = [line.rpartition(" ")[2] for line in output.splitlines() if line.startswith("### ended with")]
    assert set(codes) <= {"0", "5", "7", "8"}, output[-3000:]
