"""The user metadata of commits: the step, the decisions that it applies, and enough of each to restore the log.

Belongs here: decisions ↔ that text. Does not: writing a commit (delta), or restoring a log (operations).
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Counts, Decision, Reason

# Of a reason everything but its message, which may quote what arrived.
_REASON = ("check", "severity", "status", "effect", "rows")
# Fields with an encoding of their own; and what a commit does not store: evidence, profiles, marks of later commits.
_ENCODED = {"table", "p_extracted_at", "counts", "reasons", "ruleset", "decided_at", "waived", "inputs", "evolved"}
_NOT_STORED = {"recomputed", "input_tables", "checks", "drift", "profiles", "silver_version", "applied_at"}
_PLAIN = tuple(name for name in Decision.__dataclass_fields__ if name not in _ENCODED | _NOT_STORED)
WITHOUT_MESSAGE = "the message was lost with ops/decisions"


def encode_decisions(step: str, applied: Iterable[Decision], new_decisions: Sequence[Decision]) -> str:
    """Return a commit's user metadata: the ids of the decisions that it applies, and ``new_decisions`` in full, compressed."""
    log = {"rules": {d.ruleset_hash: d.ruleset for d in new_decisions}, "made": [_row_of(d) for d in new_decisions]}
    return json.dumps({"step": step, "decisions": sorted(d.decision_id for d in applied), "log": _compress(log)})


def encode_fingerprints(
    prints: Mapping[Batch, str], positions: Mapping[Batch, str] | None = None, reading: str | None = None
) -> str:
    """Return a bronze commit's user metadata: the source's fingerprint of each extraction in it, and its recorded position.
    ``reading``: the keys of `source:` by which they were all read, as extractions record it.
    """
    metadata = {"step": "bronze", "extractions": _compress(_texts_by_batch(prints))}
    metadata |= {"positions": _compress(_texts_by_batch(positions))} if positions else {}
    return json.dumps(metadata | ({"reading": _compress(reading)} if reading else {}))


def _texts_by_batch(texts: Mapping[Batch, str]) -> list[list[Any]]:
    return [[start_of(batch).isoformat(), batch[1], text] for batch, text in sorted(texts.items())]


def decode_fingerprints(text: str | None) -> dict[Batch, str]:
    """Return the fingerprints stored with a bronze commit; none for another program's text."""
    return _decode_texts(text, "extractions")


def decode_positions(text: str | None) -> dict[Batch, str]:
    """Return the positions stored with a bronze commit; none for another program's text."""
    return _decode_texts(text, "positions")


def decode_reading(text: str | None) -> str | None:
    """Return the keys by which the extractions of a bronze commit were read; None: not stored."""
    try:
        reading = _decompress(_parse(text)["reading"])
    except (KeyError, TypeError, ValueError, zlib.error):
        return None
    return reading if isinstance(reading, str) else None


def _decode_texts(text: str | None, name: str) -> dict[Batch, str]:
    try:
        return {(datetime.fromisoformat(start), seq): each for start, seq, each in _decompress(_parse(text)[name])}
    except (KeyError, TypeError, ValueError, zlib.error):
        return {}


def _compress(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()


def _decompress(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def decode_step(text: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the step and the ids of the named decisions; nothing for another program's text."""
    metadata = _parse(text)
    step, names = metadata.get("step"), metadata.get("decisions")
    return (step, tuple(map(str, names))) if isinstance(step, str) and isinstance(names, list) else (None, ())


def decode_last_event(text: str | None) -> str | None:
    """Return the time of the newest event of `ops/baselines` at a baseline's commit: ISO, empty for none; None: not stored."""
    moment = _parse(text).get("last_event")
    return moment if isinstance(moment, str) else None


def decode_decisions(text: str | None, table: str) -> list[Decision]:
    """Return a table's decisions that are stored with a commit; none for another program's text."""
    try:
        log = _decompress(_parse(text)["log"])
        return [_decision(table, row, log["rules"]) for row in log["made"]]
    except (KeyError, TypeError, ValueError, zlib.error):
        return []


def _parse(text: str | None) -> dict[str, Any]:
    try:
        metadata = json.loads(text or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _row_of(decision: Decision) -> dict[str, Any]:
    start = decision.p_extracted_at
    row = {name: value for name in _PLAIN if (value := getattr(decision, name)) is not None}
    row |= {"start": start.isoformat() if start else None, "decided_at": decision.decided_at.isoformat()}
    row |= {"counts": [getattr(decision.counts, name) for name in Counts.__dataclass_fields__]}
    row |= {"reasons": [[getattr(reason, name) for name in _REASON] for reason in decision.reasons]}
    more = {"waived": list(decision.waived), "inputs": decision.inputs, "evolved": decision.evolved}
    return row | {name: value for name, value in more.items() if value}


def _decision(table: str, row: dict[str, Any], rules: dict[str, str]) -> Decision:
    plain: dict[str, Any] = {name: row.get(name) for name in _PLAIN}
    plain["teaches"] = bool(row.get("teaches"))
    reasons = [dict(zip(_REASON, values, strict=True)) for values in row["reasons"]]
    return Decision(
        table=table,
        p_extracted_at=datetime.fromisoformat(row["start"]) if row["start"] else None,
        counts=Counts(*row["counts"]),
        reasons=tuple(Reason(**reason, message=WITHOUT_MESSAGE) for reason in reasons),
        ruleset=rules[row["ruleset_hash"]],
        decided_at=datetime.fromisoformat(row["decided_at"]),
        waived=tuple(row.get("waived", ())),
        inputs=row.get("inputs", {}),
        evolved=row.get("evolved", {}),
        **plain,
    )
