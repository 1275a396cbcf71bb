"""Which source columns can have faults in a rehearsal.

Belongs here: the choice of columns, without Spark. Does not: the faults (test_rehearse).
"""

import pytest

from lakehouse_assets.operations.rehearsal_columns import fault_columns
from lakehouse_assets_tests.support import readings

BOTH = "its windows have different source columns: New Name, Old"


@pytest.mark.parametrize(
    ("available", "stored", "left_out"),
    [
        (["id", "New_x20_Name"], ["id", "New_x20_Name"], {}),
        (["id", "Old"], ["id", "Old"], {}),
        (["id", "Old", "New_x20_Name"], ["id"], {"v": BOTH}),
        (["id", "OLD", "new_x20_name"], ["id"], {"v": BOTH}),
        (["id"], ["id"], {"v": "no window has had this column"}),
    ],
)
def test_a_column_that_two_source_columns_fill_has_no_faults(available, stored, left_out):
    spec = readings(
        columns={"id": "int", "v": {"type": "int", "from": ["New Name", "Old"]}}, key=["id"], last_modified=None, checks=[]
    )
    columns, reasons = fault_columns(spec, available)
    assert ([column.stored for column in columns], reasons) == (stored, left_out)
