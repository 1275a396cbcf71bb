"""Python's search for cycles: paused within a block, and rare in a process of our own."""

import gc
import subprocess
import sys

import pytest

from lakehouse_assets.storage.collector import paused_collector

PROGRAM = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 1000))  # after the command's own, which comes later
sys.argv = ["lakehouse", "--help"]
from lakehouse_assets.cli import main
before = gc.get_threshold()
try:
    main()
finally:
    now = gc.get_threshold()
    print("\\n", now[0] > 10 * before[0] and now[1:] == before[1:])
"""


def test_an_error_in_the_block_turns_the_search_on_again():
    with pytest.raises(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_block_within_another_does_not_turn_it_on():
    with paused_collector():
        with paused_collector():
            pass
        assert not gc.isenabled()


def test_a_command_searches_rarely_and_not_at_its_end():
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert process.stdout.split()[-2:] == ["True", "True"]
