"""Chaos: processes killed at every step, many writers, many histories. `make chaos` runs all of it."""
