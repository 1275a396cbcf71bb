"""The end of a script: its exit code, or that of an error of ours, which is printed in one line.

Belongs here: that alone. Does not: any script.
"""

import sys
from collections.abc import Callable
from typing import NoReturn

from lakehouse_assets.errors import LakehouseError


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a script's main function and leave with its code."""
    try:
        sys.exit(main())
    except LakehouseError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
