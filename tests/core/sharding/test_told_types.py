"""Shardings in types and structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import told_types

import pellucid as pl
from pellucid._machine.base.errors import UnsupportedError


@pytest.mark.parametrize("program", told_types.PROGRAMS)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pl, fails=program in told_types.FAILING)


def test_a_layout_over_no_mesh_asks_for_nothing() -> None:
    x = pl.numpy.ones(3)
    sharding = pl.typeof(x).sharding
    assert pl.lax.with_sharding_constraint(x, sharding) is x
    assert pl.ShapeDtypeStruct((3,), np.float32, sharding=sharding).sharding is None
    compiled = pl.jit(lambda x: 2 * x, in_shardings=sharding).lower(x).compile()
    assert compiled(x).tolist() == [2, 2, 2]


def test_structs_do_not_stand_for_addends() -> None:
    kind = pl.sharding.ManualAxisType(unreduced={"x"})
    with pytest.raises(UnsupportedError, match="can't stand for addends"):
        pl.ShapeDtypeStruct((3,), np.float32, manual_axis_type=kind)


def test_a_traced_array_refers_to_its_type() -> None:
    with pytest.raises(AttributeError, match=r"`typeof\(x\)` says what its type shows"):
        pl.jit(lambda x: x.addressable_shards)(np.ones(3))
