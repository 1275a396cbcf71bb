"""Spark's estimate of how many different numbers there are, of numbers in memory.

Belongs here: what `approx_count_distinct` keeps and returns, by numpy. Does not: reading the numbers (profile_files).

The method is HyperLogLog++ (Heule, Nunkesser and Hall, 2013) over XXH64. It is Spark's own estimate to the last digit: another
one would differ from those of earlier windows by as much as its error of 5 %.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.storage.java import java_class

Hashes = NDArray[np.uint64]

ERROR, SEED = 0.05, 42  # Spark's defaults
PRECISION = 9  # bits of a hash that choose a register
REGISTERS, MOST_ZEROS = 1 << PRECISION, 64 - PRECISION + 1
# As Spark packs them, into whole numbers of 64 bits.
REGISTERS_PER_NUMBER, REGISTER_BITS = 10, 6
_PRIMES = [
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
]
AT_ONCE = 1 << 16  # numbers, so that they and their hashes stay in the processor's cache


class DistinctValues:
    """The registers of one column. Each is the largest position of the first 1 in the hashes that belong to it."""

    def __init__(self) -> None:
        self._positions = np.zeros((REGISTERS, MOST_ZEROS + 1), bool)

    def add(self, values: NDArray[np.float64]) -> None:
        """Add numbers, all of them finite: (n,)."""
        for start in range(0, values.size, AT_ONCE):
            hashes = _hash(values[start : start + AT_ONCE])
            # A 1 behind the last bit ends every search.
            rest = (hashes << np.uint64(PRECISION)) | np.uint64(1 << (PRECISION - 1))
            self._positions[hashes >> np.uint64(64 - PRECISION), _leading_zeros(rest) + 1] = True

    def registers(self) -> list[int]:
        """The registers, 0 where nothing was added."""
        positions = np.arange(MOST_ZEROS + 1)
        return np.where(self._positions, positions, 0).max(axis=1).tolist()

    def estimate(self, jvm: Any) -> float:
        """Return the estimate, by Spark's own function."""
        registers = self.registers()
        numbers = [0] * -(-REGISTERS // REGISTERS_PER_NUMBER)
        for index, register in enumerate(registers):
            numbers[index // REGISTERS_PER_NUMBER] |= register << (REGISTER_BITS * (index % REGISTERS_PER_NUMBER))
        no_nulls = bytes(8 * -(-len(numbers) // 64))
        row = java_class(jvm, "org.apache.spark.sql.catalyst.expressions.UnsafeRow")(len(numbers))
        content = no_nulls + np.array(numbers, "<u8").tobytes()
        row.pointTo(content, len(content))
        helper = java_class(jvm, "org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper")(ERROR)
        return float(helper.query(row, 0))


def _hash(values: NDArray[np.float64]) -> Hashes:
    """XXH64 of each number's eight bytes. -0.0 is 0.0, as Spark takes it."""
    first, second, third, fourth, fifth = _PRIMES
    hashes = (values + 0.0).view(np.uint64) * second
    hashes = _rotated(hashes, 31) * first
    with np.errstate(over="ignore"):
        hashes ^= np.uint64(SEED) + fifth + np.uint64(8)
    hashes = _rotated(hashes, 27) * first + fourth
    hashes ^= hashes >> np.uint64(33)
    hashes *= second
    hashes ^= hashes >> np.uint64(29)
    hashes *= third
    return hashes ^ (hashes >> np.uint64(32))


def _rotated(hashes: Hashes, bits: int) -> Hashes:
    return (hashes << np.uint64(bits)) | (hashes >> np.uint64(64 - bits))


def _leading_zeros(hashes: Hashes) -> NDArray[np.int64]:
    """The leading zeros of hashes that have a 1. A double has the upper 53 bits exactly; if these are 0, the rest."""
    upper, lower = (hashes >> np.uint64(11)).astype(np.float64), (hashes & np.uint64((1 << 11) - 1)).astype(np.float64)
    return np.where(upper > 0, 53 - np.frexp(upper)[1], 64 - np.frexp(lower)[1]).astype(np.int64)
