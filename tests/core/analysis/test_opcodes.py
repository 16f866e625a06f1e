"""The table of operations of HLO and StableHLO."""

import typing

from pellucid._machine.ir.traits import Kind
from pellucid._machine.xla.mlir import new_context
from pellucid.analysis.opcodes import OPERATIONS, Details, is_exchange, operation_cost, operation_of
from pellucid.analysis.shapes import Shape

HLO_ONLY = {
    "add-dependency", "async", "bitcast", "conditional", "copy", "domain", "fusion", "opt-barrier",
    "parameter", "ragged-all-to-all", "rng-get-and-update-state", "topk",
}  # fmt: skip
"""Opcodes of HLO that no dialect has under the same name."""


def test_every_row_is_an_operation_that_exists():
    context = new_context()
    dialects = ("stablehlo", "chlo", "sdy", "func")
    unregistered = {
        name
        for name in OPERATIONS
        if not any(
            context.is_registered_operation(f"{dialect}.{name.replace('-', '_')}")
            for dialect in dialects
        )
    }
    assert unregistered == HLO_ONLY
    assert {row.kind for row in OPERATIONS.values()} <= set(typing.get_args(Kind))


def test_the_second_half_of_an_asynchronous_operation_costs_nothing():
    assert is_exchange("all-gather-start")
    assert not is_exchange("all-gather-done")
    shapes = [Shape((8,), 32)]
    done, start = (
        operation_cost(operation_of(f"all-reduce-{half}"), shapes, shapes, Details())
        for half in ("done", "start")
    )
    assert done == (0, 0, 0)
    assert start == (8, 0, 64)
