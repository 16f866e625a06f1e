"""Sharded types: their attributes, their text, and the layouts that they allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.sharding.errors import (
    IndivisibleError,
    PartitionSpecError,
    ShardingArgumentError,
)
from pellucid._machine.sharding.explicit_types import (
    Operand,
    checked_out_spec,
    explicit_part,
    sharding_text,
    type_sharding,
    type_text,
)
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType, Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec

P = PartitionSpec
MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)


def operand(shape: tuple[int, ...], *entries: Any, **marks: Any) -> Operand:
    return Operand(shape, P(*entries, **marks).padded(len(shape)), "float32")


def test_types_show_explicit_axes_alone(mesh: Mesh, explicit_mesh: Mesh) -> None:
    assert type_sharding(NamedSharding(mesh, P("x")), 2) is None
    shown = type_sharding(NamedSharding(explicit_mesh, P("x")), 2)
    assert shown is NamedSharding(explicit_mesh.abstract_mesh, P("x", None))
    mixed = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    assert explicit_part(P(("x", "y"), "y"), mixed, 3) == P("x", None, None)
    assert explicit_part(P(P.UNCONSTRAINED, unreduced={"x"}), mixed, 1) == P(None, unreduced={"x"})


def test_layouts_are_told_in_words() -> None:
    cut = operand((8, 8), ("x", "y"))
    assert sharding_text(cut, MESH) == "dimension 0 is sharded over 'x', 'y' (8 parts)"
    assert sharding_text(operand((8,)), MESH) == "every device has all of it"
    assert "devices along 'y' hold addends" in sharding_text(
        operand((8,), "x", unreduced={"y"}), MESH
    )
    assert type_text("f32", (8,), None) == "f32[8]"
    assert str(operand((8, 8), None, ("x", "y"))) == "float32[8,8@(x,y)]"


def test_out_sharding_must_fit() -> None:
    assert checked_out_spec("f", NamedSharding(MESH, P("x")), (8, 3), MESH) == P("x", None)
    mixed = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    other = AbstractMesh((2,), ("x",))
    for sharding, shape, mesh, error in [
        (NamedSharding(MESH, P("x", "y")), (8,), MESH, PartitionSpecError),
        (NamedSharding(MESH, P("x")), (6,), MESH, IndivisibleError),
        (NamedSharding(mixed, P("y")), (8,), mixed, PartitionSpecError),
        (NamedSharding(other, P("x")), (8,), MESH, ShardingArgumentError),
    ]:
        with pytest.raises(error):
            checked_out_spec("f", sharding, shape, mesh)


def test_starts_of_some_windows_are_cut(explicit_mesh: Mesh) -> None:
    """A start that all elements of a batch share is repeated on each device, beside those that are cut."""
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    starts = np.arange(8, dtype=np.int32) % 4

    def read(row: Any, start: Any) -> Any:
        return pl.lax.dynamic_slice(row[None] * row[:, None], (0, start), (2, 3))

    def write(row: Any, start: Any) -> Any:
        return pl.lax.dynamic_update_slice(
            row[None] * row[:, None], row[:4].reshape(2, 2), (start, 0)
        )

    for function in (read, write):
        expected = pl.vmap(function)(x, starts)
        with pl.set_mesh(explicit_mesh):
            cut = [pl.device_put(y, NamedSharding(explicit_mesh, P("x"))) for y in (x, starts)]
            got = pl.jit(pl.vmap(function))(*cut)
        assert got.sharding.spec[0] == "x"
        np.testing.assert_array_equal(got, expected)
