"""Arithmetic that gives the same bits on every CPU: constant folding, and the reference for kernels."""
