"""The inner loops, compiled by numba: arrays in, arrays out, no Python objects."""
