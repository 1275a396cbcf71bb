"""One broken promise of a contract. Belongs here: the error. Does not: any contract."""


def require(holds: bool, promise: str) -> None:
    """Raise AssertionError with the promise unless it holds."""
    if not holds:
        raise AssertionError(promise)
