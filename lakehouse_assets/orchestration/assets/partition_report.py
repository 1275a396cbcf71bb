"""Stub."""


def report_partitions(*_):
    """Stub."""
