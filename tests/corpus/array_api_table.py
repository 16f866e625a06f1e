"""The array API standard as a table: its names, and the parameters that functions take."""

from __future__ import annotations

from pathlib import Path

NAMES = [
    line
    for line in Path(__file__).with_name("array_api_standard.txt").read_text().splitlines()
    if not line.startswith("#")
]
_NOT_ELEMENTWISE = {
    "matmul", "matrix_transpose", "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values", "can_cast",
    "iinfo", "finfo",
}  # fmt: skip


def elementwise(n: int) -> list[str]:
    """Names of the elementwise functions of `n` arrays."""
    parameters = {1: "(x, /)", 2: "(x1, x2, /)"}[n]
    names = [text.removesuffix(parameters) for text in NAMES if text.endswith(parameters)]
    return [name for name in names if "." not in name and name not in _NOT_ELEMENTWISE]
