"""Rules for which the reference has no counterpart, and properties of those it has."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from pellucid.sharding import propagation
from pellucid.sharding.errors import (
    IndivisibleError,
    PartitionSpecError,
    ShardingArgumentError,
    ShardingError,
    ShardingTypeError,
)
from pellucid.sharding.explicit_types import (
    Operand,
    checked_out_spec,
    explicit_part,
    in_words,
    operand_of,
    type_sharding,
    type_text,
)
from pellucid.sharding.hlo_shardings import tiles_of
from pellucid.sharding.mesh import AbstractMesh, AxisType, Mesh
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import PartitionSpec
from pellucid.sharding.propagation import Linearity

P = PartitionSpec
MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)


def operand(shape: tuple[int, ...], *entries: Any, **marks: Any) -> Operand:
    return Operand(shape, P(*entries, **marks).padded(len(shape)), "float32")


def aval(shape: tuple[int, ...], sharding: NamedSharding | None) -> Any:
    return SimpleNamespace(shape=shape, dtype=np.dtype("float32"), shown_sharding=sharding)


def test_operands_come_from_avals() -> None:
    cut = aval((8, 8), NamedSharding(MESH, P("x")))
    operands, mesh = propagation.operands_and_mesh("add", [aval((8, 8), None), cut])
    assert operands == [operand((8, 8)), operand((8, 8), "x")]
    assert mesh is MESH
    assert operands[1] == operand_of(cut)
    other = aval((8,), NamedSharding(AbstractMesh((8,), "x", AxisType.Explicit), P("x")))
    with pytest.raises(ShardingTypeError, match="over different meshes"):
        propagation.operands_and_mesh("add", [cut, other])


def test_types_show_explicit_axes_alone(mesh: Mesh, explicit_mesh: Mesh) -> None:
    assert type_sharding(NamedSharding(mesh, P("x")), 2) is None
    shown = type_sharding(NamedSharding(explicit_mesh, P("x")), 2)
    assert shown is NamedSharding(explicit_mesh.abstract_mesh, P("x", None))
    mixed = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    assert explicit_part(P(("x", "y"), "y"), mixed, 3) == P("x", None, None)
    assert explicit_part(P(P.UNCONSTRAINED, unreduced={"x"}), mixed, 1) == P(None, unreduced={"x"})


def test_layouts_are_told_in_words() -> None:
    cut = operand((8, 8), ("x", "y"))
    assert in_words(cut, MESH) == "dimension 0 is sharded over 'x', 'y' (8 parts)"
    assert in_words(operand((8,)), MESH) == "every device has all of it"
    assert "devices along 'y' hold addends" in in_words(operand((8,), "x", unreduced={"y"}), MESH)
    assert type_text("f32", (8,), None) == "f32[8]"
    assert str(operand((8, 8), None, ("x", "y"))) == "float32[8,8@(x,y)]"


def test_dimensions_of_size_one_follow_the_others() -> None:
    spec = propagation.elementwise(
        "add", [operand((8, 1), "x"), operand((1, 8), None, "y"), operand(())], MESH
    )
    assert spec == P("x", "y")


@pytest.mark.parametrize("linearity", list(Linearity))
def test_only_linear_operations_take_addends(linearity: Linearity) -> None:
    addends = operand((8,), unreduced={"y"})
    one = [addends]
    if linearity is Linearity.NONE:
        with pytest.raises(ShardingTypeError, match="does not commute with sums"):
            propagation.elementwise("exp", one, MESH, linearity)
    else:
        assert propagation.elementwise("neg", one, MESH, linearity) == addends.spec


def test_a_quotient_is_linear_in_its_first_operand() -> None:
    addends, divisor = operand((8,), unreduced={"y"}), operand((8,), reduced={"y"})
    rule = propagation.elementwise
    assert rule("div", [addends, divisor], MESH, Linearity.FIRST) == addends.spec
    with pytest.raises(ShardingTypeError, match="linear in it"):
        rule("div", [divisor, addends], MESH, Linearity.FIRST)
    with pytest.raises(ShardingTypeError, match="needs the other one to be reduced"):
        rule("div", [addends, operand((8,))], MESH, Linearity.FIRST)


def test_a_maximum_of_addends_is_refused() -> None:
    with pytest.raises(ShardingTypeError, match="does not commute"):
        propagation.reduction("max", operand((8,), unreduced={"y"}), [0], MESH, is_sum=False)


def test_select_merges_its_cases_and_the_condition() -> None:
    cases = [operand((8, 8), "x"), operand((8, 8))]
    assert propagation.select("select_n", operand((8, 8), None, "y"), cases, MESH) == P("x", "y")
    addends = [operand((8,), unreduced={"y"})] * 2
    assert propagation.select("select_n", operand((8,), "x"), addends, MESH) == P(
        "x", unreduced={"y"}
    )
    with pytest.raises(ShardingTypeError, match="two places"):
        propagation.select("select_n", operand((8,), "y"), addends, MESH)


def test_out_sharding_must_fit() -> None:
    rule = checked_out_spec
    assert rule("f", P("x"), (8, 3), MESH) == P("x", None)
    assert rule("f", NamedSharding(MESH, P("x")), (8,), MESH) == P("x")
    mixed = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    other = AbstractMesh((2,), ("x",))
    for spec, shape, mesh, error in [
        (P("z"), (8,), MESH, ShardingError),
        (P("x", "x"), (8, 8), MESH, PartitionSpecError),
        (P("x", "y"), (8,), MESH, PartitionSpecError),
        (P("x"), (6,), MESH, IndivisibleError),
        (P("y"), (8,), mixed, PartitionSpecError),
        (("x",), (8,), MESH, ShardingArgumentError),
        (NamedSharding(other, P("x")), (8,), MESH, ShardingArgumentError),
    ]:
        with pytest.raises(error):
            rule("f", spec, shape, mesh)  # type: ignore[arg-type]


def test_made_values_are_whole_unless_said() -> None:
    assert propagation.creation("iota", (8, 8), MESH) == P(None, None)
    assert propagation.creation("iota", (8, 8), MESH, P("x")) == P("x", None)


def test_operations_without_a_rule_need_out_sharding() -> None:
    rule = propagation.or_out_sharding
    assert rule("f", [operand((8,))], (4,), MESH) == P(None)
    assert rule("f", [operand((8,), "x")], (4,), MESH, P("y")) == P("y")
    with pytest.raises(ShardingTypeError, match="ambiguous"):
        rule("f", [operand((8,), "x")], (4,), MESH)


def test_a_whole_kernel_carries_batch_and_space() -> None:
    def conv(lhs: Operand, rhs: Operand, out: Any = None) -> PartitionSpec:
        dims = (0, 1, 2, 3)
        return propagation.convolution(lhs, rhs, (8, 4, 8, 6), dims, dims, MESH, out)

    kernel = operand((4, 2, 3, 3))
    assert conv(operand((8, 2, 8, 8), "x", None, "y"), kernel) == P("x", None, "y", None)
    for lhs, rhs in [
        (operand((8, 2, 8, 8), None, "y"), kernel),
        (operand((8, 2, 8, 8)), operand((4, 2, 3, 3), "x")),
        (operand((8, 2, 8, 8), None, None, None, "x"), kernel),
    ]:
        with pytest.raises(ShardingTypeError):
            conv(lhs, rhs)
        assert conv(lhs, rhs, P("y")) == P("y", None, None, None)


def test_gather_keeps_whole_and_batch_dimensions() -> None:
    along = propagation.gather(
        operand((8, 8), "x"), operand((8, 8), "x"), (8, 8), [], [(0, 0, 0)], MESH
    )
    assert along == P("x", None)
    with pytest.raises(ShardingTypeError, match="sharded differently"):
        propagation.gather(
            operand((8, 8), "x"), operand((8, 8), "y"), (8, 8), [], [(0, 0, 0)], MESH
        )
    with pytest.raises(ShardingTypeError, match="ambiguous"):
        propagation.gather(operand((8, 8)), operand((8, 1), "x"), (8, 8), [(1, 1)], [], MESH)


def test_scatter_writes_along_uncut_dimensions() -> None:
    def scatter(x: Operand, indices: Operand, updates: Operand, out: Any = None) -> PartitionSpec:
        return propagation.scatter(x, indices, updates, [(1, 1)], [], MESH, out)

    indices = operand((4, 1))
    assert scatter(operand((8, 8), None, "x"), indices, operand((4, 8), None, "x")) == P(None, "x")
    assert scatter(operand((8, 8), None, "x"), indices, operand((4, 8))) == P(None, "x")
    for x, i, updates in [
        (operand((8, 8), "x"), indices, operand((4, 8))),
        (operand((8, 8)), indices, operand((4, 8), None, "x")),
        (operand((8, 8)), operand((4, 1), "y"), operand((4, 8))),
        (operand((8, 8), None, "x"), indices, operand((4, 8), None, "y")),
    ]:
        with pytest.raises(ShardingTypeError):
            scatter(x, i, updates)
        assert scatter(x, i, updates, P("x")) == P("x", None)


def test_scatter_runs_along_batch_dimensions_that_are_cut_alike() -> None:
    def scatter(x: Operand, indices: Operand, updates: Operand) -> PartitionSpec:
        return propagation.scatter(x, indices, updates, [], [(0, 0, 0)], MESH)

    cut = operand((8, 8), "x")
    assert scatter(cut, operand((8, 2, 1), "x"), operand((8, 2), "x")) == P("x", None)
    assert scatter(cut, operand((8, 2, 1)), operand((8, 2))) == P("x", None)
    for indices, updates in [
        (operand((8, 2, 1), "y"), operand((8, 2))),
        (operand((8, 2, 1), None, "x"), operand((8, 2))),
    ]:
        with pytest.raises(ShardingTypeError):
            scatter(cut, indices, updates)


def test_concatenation_needs_equal_layouts_and_even_parts() -> None:
    cut = operand((8, 8), "x")
    assert propagation.concatenate("concatenate", [cut, cut], 0, MESH) == P("x", None)
    with pytest.raises(ShardingTypeError, match="laid out alike"):
        propagation.concatenate("concatenate", [cut, operand((8, 8))], 0, MESH)
    odd = operand((1, 8), ("x",))
    with pytest.raises(ShardingTypeError, match="parts do not divide"):
        propagation.concatenate("concatenate", [cut, odd], 0, MESH)


@st.composite
def reshapes(draw: Any) -> tuple[AbstractMesh, Operand, tuple[int, ...]]:
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3)))
    mesh = AbstractMesh(sizes, tuple("abc"[: len(sizes)]), (AxisType.Explicit,) * len(sizes))
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        ends = sorted(draw(st.sets(st.integers(1, len(factors)))) | {len(factors)})
        return tuple(math.prod(factors[start:end]) for start, end in itertools.pairwise([0, *ends]))

    old, new = grouped(), grouped()
    axes = list(draw(st.permutations(mesh.axis_names)))
    entries = []
    for size in old:
        taken: list[Any] = []
        while axes and draw(st.booleans()):
            if size % math.prod(mesh.shape[a] for a in [*taken, axes[-1]]):
                break
            taken.append(axes.pop())
        entries.append(tuple(taken))
    return mesh, Operand(old, P(*entries)), new


def elements_by_device(
    shape: tuple[int, ...], spec: PartitionSpec, mesh: AbstractMesh
) -> list[Any]:
    tiles = tiles_of(
        NamedSharding(mesh, spec)._to_xla_hlo_sharding(len(shape)), len(shape), mesh.size
    )
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return [
        sorted(
            numbers[
                tuple(
                    slice(i * n // k, (i + 1) * n // k)
                    for i, n, k in zip(position, shape, tiles.counts, strict=True)
                )
            ].flat
        )
        for position in tiles.positions
    ]


@settings(deadline=None, max_examples=500)
@given(reshapes())
def test_a_reshape_moves_no_data_unless_it_only_merges(
    case: tuple[AbstractMesh, Operand, tuple[int, ...]],
) -> None:
    mesh, x, new = case
    try:
        spec = propagation.reshape(x, new, mesh)
    except ShardingTypeError:
        assume(False)
        return
    assert len(spec) == len(new)
    moved = elements_by_device(x.shape, x.spec, mesh) != elements_by_device(new, spec, mesh)
    assert not moved or len(new) < len(x.shape)


def test_an_empty_value_keeps_its_layout_where_dimensions_stay() -> None:
    assert propagation.reshape(operand((0, 4), None, "x"), (0, 1, 4), MESH) == P(None, None, "x")
    assert propagation.reshape(operand((0, 4)), (2, 0), MESH) == P(None, None)
    with pytest.raises(ShardingTypeError):
        propagation.reshape(operand((0, 4), None, "x"), (2, 0), MESH)
