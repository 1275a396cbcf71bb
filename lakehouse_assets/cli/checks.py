"""`lakehouse check kinds|list|validate`: the kinds of rules, those declared, and whether they are right. Nothing starts Spark.

Belongs here: arguments → call → listing. Does not: what checks say of data (trials).
"""

import json
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, out, show, tables_of
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import PROJECT_ROOT, Settings

check_app = typer.Typer(
    no_args_is_help=True, help="The rules: kinds, those declared, whether they are right, what they would say."
)


@check_app.command("kinds")
def check_kinds(as_json: AsJson = False) -> None:
    """Every kind of check, what it promises, and an example. With --json: its parameters, and what it says of NULL, too."""
    from lakehouse_assets.checks.describe import described
    from lakehouse_assets.checks.registry import kinds

    rows = [described(kind) for _, kind in sorted(kinds().items())]
    show(rows if as_json else [{name: row[name] for name in ("kind", "what", "example")} for row in rows], as_json, "")


@check_app.command("list")
def check_list(table: Annotated[str | None, typer.Option(help="Only this table.")] = None, as_json: AsJson = False) -> None:
    """Every declared check: what a failure does, its parameters, and where it is written. With --json: all parameters."""
    rows = []
    for found in tables_of([table] if table else []):
        groups: list[tuple[str, Any, tuple[Any, ...]]] = [(found.spec.name, found.spec.checks, ("checks",))]
        groups += [(f"gold_{g.name}", g.checks, ("gold", place, "checks")) for place, g in enumerate(found.spec.gold)]
        for name, checks, keys in groups:
            for place, check in enumerate(checks):
                parameters = check.model_dump(mode="json", exclude_defaults=not as_json, exclude={"check", "name", "severity"})
                rows.append(
                    {
                        "table": name,
                        "check": check.id,
                        "kind": check.check,
                        "severity": check.severity,
                        "on failure": check.effect,
                        "parameters": parameters if as_json else json.dumps(parameters),
                        "from": found.places.at((*keys, place)).removeprefix(f"{PROJECT_ROOT}/lakehouse_assets/"),
                    }
                )
    show(rows, as_json, "no checks are declared")


@check_app.command("validate")
def check_validate() -> None:
    """Whether every defs.yaml and its SQL is right, and names columns that the source has. No JVM, nothing is run."""
    from lakehouse_assets.orchestration.validate import source_mistakes, unfitting_patterns, unused_packs

    tables = tables_of()
    unfitting, notes = unfitting_patterns(tables)
    mistakes = source_mistakes(tables, Settings.from_environment()) + unused_packs(tables) + unfitting
    for table in tables:
        for gold in table.spec.gold:
            table.query_of(gold, [t.spec for t in tables])
    for note in notes:
        out.print(note, markup=False, highlight=False, soft_wrap=True)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    out.print(f"{len(tables)} table(s), {sum(len(t.spec.checks) for t in tables)} checks: right", markup=False)
