"""Silver's surrogate key: the SHA-256 of a row's columns, which every engine can compute from the same bytes.

Belongs here: a row's values → the hashed text and its hash, as SQL. Does not: which columns are hashed (contracts), or adding
the column (computed_columns).

The hashed text is UTF-8. Each column adds `<length in bytes>:<text>,`, and a NULL adds `-,`. So two rows with different values
never have one text. SHA-256 has a function in every engine and no known collision; a 64-bit hash would have one among some
billion keys.
"""

from collections.abc import Sequence

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.spark_types import Atom, Decimal, SparkType
from lakehouse_assets.contracts.surrogate_key import form_of


def hash_sql(columns: Sequence[str], types: Sequence[SparkType]) -> str:
    """Return SQL of the hash of these columns, which are of these types."""
    texts = [_text(identifier(name), kind) for name, kind in zip(columns, types, strict=True)]
    parts = [f"coalesce(concat(CAST(octet_length({text}) AS STRING), ':', {text}, ','), '-,')" for text in texts]
    return f"sha2(concat({', '.join(parts)}), 256)"


def _text(value: str, kind: SparkType) -> str:
    """Return SQL of a value's text. Raises ValueError for a type without one, which no contract has."""
    form = form_of(kind)
    if form is None:
        raise ValueError(f"{kind} cannot be hashed")
    if form == "text":
        return value
    if form == "bytes":
        return f"lower(hex({value}))"
    if form == "moment":
        moment = value if kind == Atom("timestamp") else f"CAST({value} AS TIMESTAMP)"
        return f"CAST(unix_micros({moment}) AS STRING)"
    text = f"CAST({value} AS STRING)"
    if isinstance(kind, Decimal) and kind.scale:
        return f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {text}))"
    return text
