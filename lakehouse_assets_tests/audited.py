"""Made-up audits, as `ops/audits` would hold them: for tests of what only reads them.

Belongs here: records of two tables, one of them with hostile names and values. Does not: any test.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakehouse_assets.contracts.audit import AuditRecord, AuditRules, read_rules
from lakehouse_assets.contracts.audit_binding import bind
from lakehouse_assets.decisions.audit.share import exact_share, uniform_share
from lakehouse_assets.decisions.audit.verdict import decide_verdict, exception_result, judge_share, judge_unique

AT = datetime(2026, 11, 16, 5, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"
COLUMNS = {
    "id": "bigint", "iso2_country_code": "string", "homepage": "string", f"{SCRIPT}_url": "string", "revenue": "double",
    "employees": "int", "description": "string", SCRIPT: "string", "address.country_name": "string",
}  # fmt: skip
FAILED = {"homepage": 80, "revenue": 3, "description": 700, "iso2_country_code": 19}


def firms(week: int = 0, **changes) -> AuditRecord:
    """A table of which much is asked."""
    columns = {name: kind for name, kind in COLUMNS.items() if week or name != "employees"}
    binding = bind(read_rules().rules, "silver/firms", columns, ("id",), 2026)
    results = []
    for each in binding.bound:
        column = each.columns[0]
        if each.rule.name == "key_unique":
            results.append(judge_unique(each, 250_000, 0))
        elif each.rule.name == "url_form" and column != "homepage":
            results.append(exception_result(each, f"no such thing as {SCRIPT}"))
        elif each.rule.threshold == 1.0 and column not in FAILED:
            results.append(judge_share(each, exact_share(250_000, 0), escalated=True))
        else:
            share = uniform_share(1000, FAILED.get(column, 0), 250_000)
            results.append(judge_share(each, share, examples=[f"{SCRIPT}{{{{7*7}}}}", '"><img src=x onerror=alert(1)>']))
    raw = {"DE": 180_000, "FR": 60_000, SCRIPT: 9_990, "IS": 10}
    record = AuditRecord(
        audit_id=f"{week:016x}", run_id=f"run-{week}", path="/lake/silver/firms", stage="silver", table="silver/firms",
        version=week, as_of=False, verdict=decide_verdict(results), total_raw_records=250_000, total_sampled_records=1000,
        target_rows=1000, weight_column="iso2_country_code", distribution_column="iso2_country_code",
        raw_data_distribution=raw, sample_data_distribution={"DE": 485, "FR": 245, SCRIPT: 260, "IS": 10},
        audit_columns=binding.columns, seed=7, confidence=0.95, ruleset_hash=read_rules().ruleset_hash,
        started_at=AT + timedelta(weeks=week), duration=4.2, results=tuple(r.as_dict() for r in results),
        bindings=tuple((b.rule.name, c) for b in binding.bound for c in b.columns),
        uncovered=binding.uncovered, unfit=binding.unfit, schema=columns,
    )  # fmt: skip
    return replace(record, **changes)


def torn() -> AuditRecord:
    """A table that could not be opened."""
    return firms(
        table=f"gold/{SCRIPT}/torn", stage="gold", version=None, verdict="stopped", total_raw_records=None,
        total_sampled_records=None, results=(), bindings=(), uncovered=(), unfit=(), schema={}, raw_data_distribution={},
        sample_data_distribution={}, error_message=f"the log is torn: {SCRIPT}",
    )  # fmt: skip


def history() -> list[AuditRecord]:
    """Three weeks of both."""
    calm = firms(0, verdict="passed")
    return [calm, firms(1, verdict="passed_with_warnings"), torn(), firms(2, lost=(("country_name_present", SCRIPT),))]


def strict() -> AuditRules:
    """The default pack, of which one critical rule fits nothing and says so."""
    rules = read_rules()
    (one,) = [rule for rule in rules.rules if rule.name == "country_code_length"]
    added = one.model_copy(update={"name": "planet_code", "columns": ("*planet*",), "allow_unmatched": False})
    return replace(rules, rules=(*rules.rules, added))
