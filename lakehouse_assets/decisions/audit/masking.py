"""An audit's record as a page may show it: no value of a personal column, also of one that was marked after the audit.

Belongs here: which columns of an audited table are personal, and what of a record is hidden. Does not: its marks (contracts).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse_assets.contracts.audit import AuditRecord, fits
from lakehouse_assets.decisions.personal import MASKED, mask_text


def personal_leaves(schema: Iterable[str], marked: Collection[str], patterns: Collection[str]) -> frozenset[str]:
    """Return the columns of a schema, nested ones by their paths, that are marked, lie within a marked one, or fit a pattern;
    the marked ones of a table without any of them.
    """
    lower_names, schema = {name.lower() for name in marked}, tuple(schema)
    names = {name for name in schema if {name.lower(), name.lower().partition(".")[0]} & lower_names}
    return frozenset({*names, *(name for name in schema if fits(name, patterns))} or lower_names)


def mask_record(record: AuditRecord, personal: Collection[str] | None) -> AuditRecord:
    """Return a record without what may quote a value of these columns. None: nobody knows which, and each column may be."""
    if personal is not None and not personal:
        return record

    def mask(result: Mapping[str, Any]) -> dict[str, Any]:
        hidden = result["examples"] and (personal is None or not set(personal).isdisjoint(result["columns"]))
        message = mask_text(result["message"]) if result["status"] == "exception" else result["message"]
        return {**result, "examples": [MASKED] if hidden else result["examples"], "message": message}

    shown = replace(
        record, results=tuple(map(mask, record.results)), error_message=mask_text(record.error_message or "") or None
    )
    if personal is None or record.distribution_column in personal:
        return replace(shown, raw_data_distribution={}, sample_data_distribution={})
    return shown
