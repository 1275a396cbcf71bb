"""A listing's lines, where each row fits into one: rich takes a second for a thousand cells.

Belongs here: the layout of such a table. Does not: colours, wrapping (rich), or what a cell says (terminal).
"""

from collections.abc import Sequence

from rich.cells import cell_len

GAP = 2


def plain_lines(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str] | None:
    """Return the header and the rows as lines, columns aligned left; None if a line is wider than ``width``, a cell has several
    lines, or a row has not as many cells as the header.

    >>> plain_lines(["a", "name"], [["1", "x"], ["12", ""]], 80)
    ['a   name', '1   x   ', '12      ']
    """
    table = [header, *rows]
    if any(len(row) != len(header) or any("\n" in cell for cell in row) for row in table):
        return None
    lengths = [[cell_len(cell) for cell in row] for row in table]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        return None
    gap = " " * GAP
    return [
        gap.join(cell + " " * (wide - length) for cell, wide, length in zip(row, widths, own, strict=True))
        for row, own in zip(table, lengths, strict=True)
    ]
