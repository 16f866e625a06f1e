"""Layouts derived from factors: rules as texts, and what each primitive's factors let types say."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import pellucid as pl
from pellucid import lax
from pellucid._machine.ir import Primitive, Traits, shaped_array
from pellucid._machine.ir.factors import regrouping
from pellucid._machine.ir.primitive import params_of, registry
from pellucid._machine.sharding.current_mesh import use_abstract_mesh
from pellucid._machine.sharding.errors import ShardingArgumentError, ShardingTypeError
from pellucid._machine.sharding.explicit_types import FactorRule, Operand, ShardedOperation, rule_of
from pellucid._machine.sharding.hlo_shardings import tiles_of
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.tracing import bind1

P = PartitionSpec
MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)


def operand(shape: tuple[int, ...], *entries: Any, **marks: Any) -> Operand:
    return Operand(shape, P(*entries, **marks).padded(len(shape)), "float32")


def parse(text: str) -> FactorRule:
    """The rule that `text`, as in the docstring of `sharding/explicit_types.py`, describes."""
    arrays, *sizes = text.split(";")
    sides = [
        [
            [w for w in re.findall(r"\([^()]*\)|[^\s()]+", dims) if w != "."]
            for dims in side.split(",")
        ]
        for side in arrays.split("->")
    ]
    pairs = (size.split("=") for size in sizes)
    return rule_of((*sides, {name.strip(): int(n) for name, n in pairs}))


def laid_out(text: str, *operands: Operand, shape: tuple[int, ...], linear: Any = None) -> Any:
    """The spec of the one result, of `shape`, by the rule `text`."""
    [spec] = ShardedOperation("f", parse(text), operands, MESH, linear).specs([shape])
    return spec


def value(shape: tuple[int, ...], *entries: Any, dtype: Any = np.float32, **marks: Any) -> Any:
    return pl.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*entries, **marks)))


def spec_of(f: Any, *operands: Any) -> Any:
    """The spec in the type of `f` of operands of these types."""
    shape = pl.eval_shape(f, *operands)
    return P().padded(shape.ndim) if shape.sharding is None else shape.sharding.spec


# Rules --------------------------------------------------------------------------------------------


def test_a_rule_has_factors_by_dimension_sizes_and_marks() -> None:
    rule = parse("(a b) c~=, . -> a (b c) 1; a=2; b=4")
    assert rule.operands == ((("a", "b"), ("c",)), ())
    assert rule.results == ((("a",), ("b", "c"), ()),)
    assert (rule.sizes, rule.marks) == ({"a": 2, "b": 4}, {"c": "~="})


def test_marks_hold_for_a_factor_everywhere() -> None:
    assert parse("a!, a= -> a").marks == {"a": "!="}


@pytest.mark.parametrize("text", ["a? -> a", "2 -> a"])
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ShardingArgumentError, match="sharding rule"):
        parse(text)


def test_mesh_axes_of_a_dimension_go_to_its_factors_in_order() -> None:
    split = "(a b) -> a b; a=4; b=4"
    assert laid_out(split, operand((16,), ("x", "y")), shape=(4, 4)) == P("x", "y")
    assert laid_out(split, operand((16,), "y"), shape=(4, 4)) == P("y", None)
    with pytest.raises(ShardingTypeError, match="ambiguous"):
        laid_out(split, operand((16,), ("y", "x")), shape=(4, 4))


def test_a_whole_factor_lets_none_behind_it_be_cut() -> None:
    merge = "a b -> (a b)"
    assert laid_out(merge, operand((4, 4), "x", "y"), shape=(16,)) == P(("x", "y"))
    with pytest.raises(ShardingTypeError, match="ambiguous"):
        laid_out(merge, operand((4, 4), None, "y"), shape=(16,))


@pytest.mark.parametrize(
    ("text", "operands", "shape", "match"),
    [
        ("a!-> a!", [operand((8,), "x")], (8,), "along which it works, must not be sharded"),
        ("a, a -> a", [operand((8,), "x"), operand((8,), "y")], (8,), "sharded differently in"),
        ("a b, b a -> a b", [operand((8, 8), "x"), operand((8, 8), None, "y")], (8, 8), "belong together"),
        ("a=, a= -> a", [operand((8,), "x"), operand((8,))], (8,), "laid out alike"),
        ("a^, a^ -> a", [operand((8,)), operand((8,), "x")], (8,), "only where operand 0"),
        ("a~ -> a~", [operand((8,), "x")], (6,), "would have size 6"),
        ("i k, k j -> i j", [operand((8, 8), None, "x"), operand((8, 8), "x")], (8, 8), "hold addends"),
        ("a, b -> a b", [operand((8,), "x"), operand((8,), "x")], (8, 8), "two places"),
    ],
)  # fmt: skip
def test_what_has_no_layout(text: str, operands: Any, shape: Any, match: str) -> None:
    with pytest.raises(ShardingTypeError, match=match):
        laid_out(text, *operands, shape=shape)


def test_a_factor_is_cut_as_in_those_that_cut_it() -> None:
    assert laid_out("a, a -> a", operand((8,)), operand((8,), "x"), shape=(8,)) == P("x")
    assert laid_out("a<, a< -> a", operand((8,)), operand((8,), "x"), shape=(8,)) == P(None)
    assert laid_out("k a, k -> a", operand((8, 8), "x", "y"), operand((8,)), shape=(8,)) == P("y")


# Marks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linear", ["all", "each", (0,), None])
def test_only_linear_operations_take_addends(linear: Any) -> None:
    addends = operand((8,), unreduced={"y"})
    if linear is None:
        with pytest.raises(ShardingTypeError, match="does not commute with sums"):
            laid_out("a -> a", addends, shape=(8,), linear=linear)
    else:
        assert laid_out("a -> a", addends, shape=(8,), linear=linear) == addends.spec


@pytest.mark.parametrize(
    ("linear", "marks", "expected"),
    [
        ("all", ["U", "U"], "U"),
        ("all", ["U", ""], "over the same mesh axes, or none"),
        ("each", ["U", "R"], "U"),
        ("each", ["R", "U"], "U"),
        ("each", ["U", "U"], "at most one operand"),
        ("each", ["U", ""], "needs the other one to be reduced"),
        ((0,), ["U", "R"], "U"),
        ((0,), ["R", "U"], "linear in it"),
        ((0,), ["U", ""], "needs the other one to be reduced"),
        (None, ["R", "R"], "R"),
        (None, ["R", ""], "reduced over the same mesh axes, or none"),
    ],
)
def test_marks_of_a_result(linear: Any, marks: list[str], expected: str) -> None:
    kinds = {"U": {"unreduced": {"y"}}, "R": {"reduced": {"y"}}, "": {}}
    operands = [operand((8,), **kinds[mark]) for mark in marks]
    if expected in kinds:
        spec = laid_out("a, a -> a", *operands, shape=(8,), linear=linear)
        assert spec == P(None, **kinds[expected])
    else:
        with pytest.raises(ShardingTypeError, match=expected):
            laid_out("a, a -> a", *operands, shape=(8,), linear=linear)


def test_scalars_need_not_be_reduced_but_say_so() -> None:
    assert spec_of(lax.exp, value((), reduced={"x"})) == P(reduced={"x"})
    assert spec_of(lax.add, value((8,), reduced={"x"}), value(())) == P(None, reduced={"x"})
    with pytest.raises(ShardingTypeError, match="reduced over the same"):
        spec_of(lax.add, value((8,)), value((), reduced={"x"}))
    scaled = spec_of(lambda x: lax.div(lax.mul(x, np.float32(2)), np.float32(3)), ADDENDS)
    assert scaled == ADDENDS.sharding.spec.padded(2)


def test_operands_that_select_have_no_addends() -> None:
    cases = [value((8,), unreduced={"y"})] * 2
    which = value((8,), "x", dtype=np.bool_)
    assert spec_of(lax.select_n, which, *cases) == P("x", unreduced={"y"})
    with pytest.raises(ShardingTypeError, match="two places"):
        spec_of(lax.select_n, value((8,), "y", dtype=np.bool_), *cases)
    start = value((), unreduced={"y"}, dtype=np.int32)
    with pytest.raises(ShardingTypeError, match="operand 1 is unreduced"):
        spec_of(lambda x, i: lax.dynamic_slice_p.bind(x, i, slice_sizes=(4,)), value((8,)), start)


ADDENDS = value((8, 8), unreduced={"x"})


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.pad(x, np.float32(1), ((0, 1, 0), (0, 0, 0))),
        lambda x: lax.reduce_window_max_p.bind(
            x, window_dimensions=(2, 1), window_strides=(2, 1), padding=((0, 0), (0, 0)),
            base_dilation=(1, 1), window_dilation=(1, 1)
        ),
        lambda x: lax.bitcast_convert_type(x, np.int32),
        lambda x: lax.convert_element_type(x, np.int32),
        lambda x: lax.div(lax.convert_element_type(x, np.int32), np.int32(2)),
        lambda x: lax.gather(
            x, np.array([[9]]), lax.GatherDimensionNumbers((0,), (0,), (0,)), (1, 8), mode="fill", fill_value=1
        ),
        lambda x: lax.reduce_max(x, (0,)),
        lambda x: lax.sort(x),
    ],
    ids=["pad", "window maximum", "bitcast", "convert", "quotient", "fill", "maximum", "sort"],
)  # fmt: skip
def test_what_is_not_linear_refuses_addends(f: Any) -> None:
    with pytest.raises(ShardingTypeError):
        spec_of(f, ADDENDS)


@pytest.mark.parametrize("marks", [{"unreduced": {"y"}}, {"reduced": {"y"}}])
def test_collectives_keep_marks(marks: Any) -> None:
    x = pl.typeof(value((8, 8), None, "x", **marks))
    for primitive, params, spec in [
        (
            lax.all_gather_p,
            {"all_gather_dimension": 0, "axis_size": 2, "tiled": False},
            P(None, None, "x"),
        ),
        (
            lax.all_gather_p,
            {"all_gather_dimension": 0, "axis_size": 2, "tiled": True},
            P(None, "x"),
        ),
        (
            registry["reduce_scatter"],
            {"scatter_dimension": 0, "axis_size": 8, "tiled": False},
            P("x"),
        ),
        (
            registry["all_to_all"],
            {"split_axis": 0, "concat_axis": 0, "tiled": True, "parts": 2},
            P(None, "x"),
        ),
    ]:
        more = {"axis_index_groups": None, "axis_name": ("z",)}
        [result], _ = primitive.types((x,), params_of(primitive, params | more))
        assert result.sharding.spec == spec.update(**marks)
    params = params_of(registry["pmax"], {"axes": ("z",), "axis_index_groups": None})
    if "unreduced" in marks:
        with pytest.raises(ShardingTypeError, match="does not commute"):
            registry["pmax"].types((x,), params)
    else:
        assert registry["pmax"].types((x,), params)[0][0] is x


def test_addends_asked_for_are_there() -> None:
    stated = NamedSharding(MESH, P(unreduced={"x"}))

    def sum_of(x: Any) -> Any:
        return lax.reduce_sum(x, (0,), out_sharding=stated)

    assert spec_of(sum_of, value((8,), "x")) == P(unreduced={"x"})
    assert spec_of(sum_of, value((8,), ("x", "y"))) == P(unreduced={"x"})
    assert spec_of(sum_of, value((8,), unreduced={"x"})) == P(unreduced={"x"})
    for x in (value((8,)), value((8,), "y"), value((8,), unreduced={"y"})):
        with pytest.raises(ShardingTypeError, match="can't be unreduced over 'x'"):
            spec_of(sum_of, x)
    with pytest.raises(ShardingTypeError, match="can't be unreduced over 'x'"):
        spec_of(lambda x: lax.broadcast_in_dim(x, (8,), (), out_sharding=stated), value(()))
    with pytest.raises(ShardingTypeError, match="can't be unreduced over 'x'"):
        spec_of(lambda x: lax.reshape(x, (4, 2), out_sharding=stated), value((8,)))


# Primitives ---------------------------------------------------------------------------------------


def test_dimensions_of_size_one_follow_the_others() -> None:
    rows, columns = value((8, 1), "x"), value((1, 8), None, "y")
    assert spec_of(lambda a, b: lax.add(lax.mul(a, np.float32(2)), b), rows, columns) == P("x", "y")
    assert spec_of(lax.add, value((0,), "x"), value((1,))) == P("x")


def test_select_merges_its_cases_and_the_condition() -> None:
    cases = [value((8, 8), "x"), value((8, 8))]
    assert spec_of(lax.select_n, value((8, 8), None, "y", dtype=np.bool_), *cases) == P("x", "y")


def test_made_values_are_whole_unless_said() -> None:
    with use_abstract_mesh(MESH):
        assert spec_of(lambda: lax.broadcasted_iota(np.int32, (8, 8), 1)) == P(None, None)
        result = spec_of(lambda: lax.broadcasted_iota(np.int32, (8, 8), 1, out_sharding=P("x")))
        assert result == P("x", None)


def test_a_whole_kernel_carries_batch_and_space() -> None:
    def conv(lhs: Any, rhs: Any, stated: Any = None) -> Any:
        stated = None if stated is None else NamedSharding(MESH, stated)
        convolution = lambda x, k: lax.conv_general_dilated_p.bind(
            x, k, window_strides=(1, 1), padding=((0, 0), (0, 0)), lhs_dilation=(1, 1), rhs_dilation=(1, 1),
            dimension_numbers=lax.conv_dimension_numbers(lhs.shape, rhs.shape, None), feature_group_count=1,
            batch_group_count=1, precision=None, preferred_element_type=None, out_sharding=stated,
        )  # fmt: skip
        return spec_of(convolution, lhs, rhs)

    kernel = value((4, 2, 3, 3))
    assert conv(value((8, 2, 10, 8), "x", None, "y"), kernel) == P("x", None, "y", None)
    for lhs, rhs in [
        (value((8, 2, 10, 8), None, "y"), kernel),
        (value((8, 2, 10, 8)), value((4, 2, 3, 3), "x")),
        (value((8, 2, 8, 8), None, None, "y", "x"), kernel),
    ]:
        with pytest.raises(ShardingTypeError):
            conv(lhs, rhs)
        assert conv(lhs, rhs, P("y")) == P("y", None, None, None)
    with pytest.raises(ShardingTypeError, match="can't be unreduced"):
        conv(value((8, 2, 8, 8), None, "y"), value((4, 2, 3, 3), None, "y"), P(unreduced={"y"}))


def test_gather_keeps_whole_and_batch_dimensions() -> None:
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    take = lambda x, i: lax.gather(x, i, rows, (1, 8))
    assert spec_of(take, value((8, 8), None, "x"), value((4, 1), dtype=np.int32)) == P(None, "x")
    with pytest.raises(ShardingTypeError, match="operand 1, along which it works"):
        spec_of(take, value((8, 8)), value((4, 1), "x", dtype=np.int32))
    along = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    pick = lambda x, i: lax.gather(x, i, along, (1, 1))
    assert spec_of(pick, value((8, 8), "x"), value((8, 4, 1), "x", dtype=np.int32)) == P("x", None)
    with pytest.raises(ShardingTypeError, match="sharded differently"):
        spec_of(pick, value((8, 8), "x"), value((8, 4, 1), "y", dtype=np.int32))


def test_scatter_writes_along_dimensions_that_updates_cover() -> None:
    rows = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    put = lambda x, i, u: lax.scatter_add(x, i, u, rows)
    at = value((4, 1), dtype=np.int32)
    assert spec_of(put, value((8, 8), None, "x"), at, value((4, 8), None, "x")) == P(None, "x")
    assert spec_of(put, value((8, 8), None, "x"), at, value((4, 8))) == P(None, "x")
    for x, i, updates in [
        (value((8, 8), "x"), at, value((4, 8))),
        (value((8, 8)), at, value((4, 8), None, "x")),
        (value((8, 8)), value((4, 1), "y", dtype=np.int32), value((4, 8))),
        (value((8, 8), None, "x"), at, value((4, 8), None, "y")),
    ]:
        with pytest.raises(ShardingTypeError):
            spec_of(put, x, i, updates)


def test_scatter_runs_along_batch_dimensions_that_are_cut_alike() -> None:
    along = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
    put = lambda x, i, u: lax.scatter_add(x, i, u, along)
    cut = value((8, 8), "x")
    for entry in ("x", None):
        at, updates = value((8, 2, 1), entry, dtype=np.int32), value((8, 2), entry)
        assert spec_of(put, cut, at, updates) == P("x", None)
    for at in (value((8, 2, 1), "y", dtype=np.int32), value((8, 2, 1), None, "y", dtype=np.int32)):
        with pytest.raises(ShardingTypeError):
            spec_of(put, cut, at, value((8, 2)))


def test_concatenation_needs_equal_layouts_and_even_parts() -> None:
    joined = lambda *xs: lax.concatenate(xs, 0)
    cut = value((8, 8), "x")
    assert spec_of(joined, cut, cut) == P("x", None)
    with pytest.raises(ShardingTypeError, match="laid out alike"):
        spec_of(joined, cut, value((8, 8)))


def test_operands_lie_over_one_mesh() -> None:
    other = NamedSharding(AbstractMesh((8,), "x", AxisType.Explicit), P("x"))
    with pytest.raises(ShardingTypeError, match="over different meshes"):
        lax.add_p.types(
            (
                pl.typeof(value((8,), "x")),
                pl.typeof(pl.ShapeDtypeStruct((8,), np.float32, sharding=other)),
            ),
            params_of(lax.add_p, {}),
        )


def test_an_operation_without_factors_says_so() -> None:
    class Reversal(Primitive[None]):
        """A primitive that says nothing of its dimensions."""

        name = "reversal_without_factors"
        traits = Traits(kind="movement", flops=None)

        def abstract_eval(self, avals: Any, params: None) -> Any:
            return [shaped_array(avals[0].shape, avals[0].dtype)]

    reversal = Reversal()
    registry.pop(reversal.name, None)
    with pytest.raises(ShardingTypeError, match="no rule for operands that are sharded"):
        spec_of(lambda x: bind1(reversal, x, params=None), value((8, 8), "x"))


# Reshape ------------------------------------------------------------------------------------------


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
        selected: list[Any] = []
        while axes and draw(st.booleans()):
            if size % math.prod(mesh.shape[a] for a in [*selected, axes[-1]]):
                break
            selected.append(axes.pop())
        entries.append(tuple(selected))
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
    rule = rule_of(regrouping(x.shape, new))
    try:
        [spec] = ShardedOperation("reshape", rule, [x], mesh, "all").specs([new])
    except ShardingTypeError:
        assume(False)
        return
    assert len(spec) == len(new)
    moved = elements_by_device(x.shape, x.spec, mesh) != elements_by_device(new, spec, mesh)
    assert not moved or len(new) < len(x.shape)


def test_an_empty_value_keeps_its_layout_where_dimensions_stay() -> None:
    reshaped = lambda new: lambda x: lax.reshape(x, new)
    assert spec_of(reshaped((0, 1, 4)), value((0, 4), None, "x")) == P(None, None, "x")
    assert spec_of(reshaped((2, 0)), value((0, 4))) == P(None, None)
    with pytest.raises(ShardingTypeError):
        spec_of(reshaped((2, 0)), value((0, 4), None, "x"))
