"""Costs of programs, from their records."""

from typing import Any


def total_cost(record: Any, name: str) -> float | None:
    """Cost of one run of a program; None where that of some equation is not known."""
    [values] = [column.values for column in record.costs if column.name == name]
    local = values[: record.bodies[0].equation_count]
    return None if None in local else sum(local)
