"""Silver's columns, with their types.

Belongs here: names and types that follow from a contract. Does not: the order of rows (total_order), folding
rows (pipeline/fold), or what is on disk (queries).
"""

from lakehouse_assets.contracts.batch import CONTENT_HASH, ROW_COLUMNS, SEQUENCE, WINDOW
from lakehouse_assets.contracts.spark_types import parse_type, sql_type
from lakehouse_assets.contracts.table_contract import TableContract

# In append mode the number of a row among the equal rows of its batch.
ORDINAL = "_ordinal"
BOOKKEEPING_TYPES = {WINDOW: "timestamp", SEQUENCE: "int", CONTENT_HASH: "string", ORDINAL: "int"}


def silver_columns(spec: TableContract) -> list[str]:
    """Silver's columns in order: declared ones, computed ones, where the row comes from, then what batches have added."""
    ordinal = [ORDINAL] if spec.extraction.mode == "append" else []
    added = spec.evolved_columns
    declared = [name for name in spec.columns if name not in added]
    return [*declared, *spec.computed_columns, *ROW_COLUMNS, *ordinal, *added]


def columns_from_bronze(spec: TableContract) -> list[str]:
    """Silver's columns in order, without the computed ones: they follow from the others once the row is folded."""
    return [name for name in silver_columns(spec) if name not in spec.computed_columns]


def silver_types(spec: TableContract) -> dict[str, str]:
    """Silver's columns in order, each with Spark's name of its type."""
    types = {name: sql_type(parse_type(column.type)) for name, column in spec.published_columns.items()} | BOOKKEEPING_TYPES
    return {name: types[name] for name in silver_columns(spec)}
