"""Formatting of numbers with units, to three digits."""

from __future__ import annotations


def count_text(count: float, unit: str) -> str:
    """A count with a decimal prefix and unit.

    >>> count_text(4.3e9, "flop")
    '4.3 Gflop'
    """
    prefix = 0
    while count >= 1000 and prefix < 5:
        count /= 1000
        prefix += 1
    return f"{count:.3g} {'kMGTP'[prefix - 1] if prefix else ''}{unit}"


def seconds_text(seconds: float) -> str:
    """A duration with a suitable unit.

    >>> seconds_text(0.0123), seconds_text(75.0)
    ('12.3 ms', '75 s')
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            break
    return f"{seconds * factor:.3g} {unit}"
