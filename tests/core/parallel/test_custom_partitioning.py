"""`custom_partitioning` agrees with the reference, and what is wrong with a partition is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import partitioned_programs as programs

import pellucid as pl
from pellucid import P
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    MissingRule,
    UnsupportedError,
)
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.sharding.errors import ShardingArgumentError
from pellucid._machine.sharding.placement import GSPMDSharding
from pellucid._machine.sharding.sharding_rule import parse_rule
from pellucid.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from pellucid.sharding import NamedSharding

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pl, tolerance=1e-5)


def doubled(part=lambda x: 2 * x, shardings=None, **rule):
    f = custom_partitioning(lambda x: 2 * x)

    def partition(mesh, operands, result):
        return mesh, part, shardings or result.sharding, (result.sharding,)

    f.def_partition(partition, **({"sharding_rule": "... -> ..."} | rule))
    return f


def over_devices(f):
    mesh = programs.mesh_of(pl)
    return pl.jit(f, in_shardings=NamedSharding(mesh, P("x", "y")))


def test_nothing_is_exchanged_where_the_rule_allows_parts():
    program = over_devices(doubled()).lower(X).compile().as_text()
    assert "all-gather" not in program
    assert "all-gather" in over_devices(doubled(sharding_rule=None)).lower(X).compile().as_text()


def test_it_is_the_function_itself_on_one_device_and_inside_shard_map():
    f = doubled(part=lambda x: 1 / 0)
    np.testing.assert_array_equal(f(X), 2 * X)
    mapped = pl.shard_map(f, mesh=programs.mesh_of(pl), in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(mapped(X), 2 * X)


def test_the_function_of_parts_may_have_constants():
    table = np.arange(2, dtype=np.float32)
    f = custom_partitioning(lambda x: x + np.tile(table, 2))

    def partition(mesh, operands, result):
        return mesh, lambda x: x + table, result.sharding, (result.sharding,)

    f.def_partition(partition, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(over_devices(f)(X), X + np.tile(table, 2))


def test_tile_assignments_instead_of_named_shardings():
    seen = []

    def partition(mesh, operands, result):
        seen.append(type(result.sharding))
        return mesh, lambda x: 2 * x, result.sharding, (operands[0].sharding,)

    f = custom_partitioning(lambda x: 2 * x)
    f.def_partition(partition, decode_shardings=False, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(over_devices(f)(X), 2 * X)
    assert seen == [GSPMDSharding]


def test_an_error_of_the_partition_comes_out():
    with pytest.raises(ZeroDivisionError):
        over_devices(doubled(part=lambda x: 1 / 0))(X)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"part": lambda x: x[:1]}, ArgumentTypeError, "must give parts of the results"),
        ({"shardings": P("x")}, ArgumentTypeError, "result_shardings that are shardings"),
        (
            {"part": lambda x: pl.pure_callback(lambda x: x, x, x)},
            UnsupportedError,
            "can't call the host",
        ),
        ({"sharding_rule": "i -> i"}, ShardingArgumentError, "not for an array of shape"),
        ({"sharding_rule": "i j, k -> i j"}, ShardingArgumentError, "about 2 operands"),
    ],
)
def test_what_does_not_fit_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        over_devices(doubled(**options))(X)


def test_there_must_be_a_partition_and_a_rule():
    with pytest.raises(NotImplementedError, match="def_partition"):
        custom_partitioning(lambda x: x)(X)
    with pytest.raises(ShardingArgumentError, match="by `sharding_rule`"):
        doubled(infer_sharding_from_operands=lambda *args: None, sharding_rule=None)
    with pytest.raises(ShardingArgumentError, match="sharding_rule` that is a string"):
        doubled(sharding_rule=None, reduction_factors=("i",))


def test_derivatives_and_batches_need_rules():
    f = doubled()
    with pytest.raises(MissingRule, match="custom_vjp"):
        pl.grad(lambda x: f(x).sum())(X)
    with pytest.raises(MissingRule, match="custom_vmap"):
        pl.vmap(f)(X)


def test_a_second_call_compiles_nothing():
    f = pl.jit(doubled())
    f(X)
    with counting(CompilationFinished) as compilations:
        np.testing.assert_array_equal(f(X), 2 * X)
    assert compilations.count == 0


def test_static_arguments_need_a_hash_and_all_arguments_a_position():
    f = custom_partitioning(lambda scales, x: x * scales[0], static_argnums=0)
    f.def_partition(lambda *args: args, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(f((3,), x=X), 3 * X)
    with pytest.raises(ArgumentValueError, match="'scales' can't be hashed"):
        f([3], X)
    g = custom_partitioning(lambda x, *, y: x + y)
    g.def_partition(lambda *args: args)
    with pytest.raises(ArgumentTypeError, match="by position"):
        g(X, y=X)


# Rules ----------------------------------------------------------------------------------------------------


def test_rules_as_texts_and_as_objects_are_the_same():
    rule = SdyShardingRule(
        (ArrayMapping(BATCHING, CompoundFactor("a", "b")), ArrayMapping("k")),
        (ArrayMapping(BATCHING, "a", "b"),),
        reduction_factors=("k",),
    )
    text = "#sdy.op_sharding_rule<([i, jk], [l])->([i, j, k]) {i=3, j=2, k=5, l=7} reduction={l}, custom>"
    shapes = [(3, 10), (7,)], [(3, 2, 5)]
    assert rule.attribute_text(*shapes) == text
    parsed = parse_rule("...(a b), k -> ...a b", reduction_factors=("k",))
    assert parsed.attribute_text(*shapes) == text
    assert repr(parsed) == "SdyShardingRule('… (a b), k -> … a b', reduction_factors=('k',))"


def test_many_factors_have_names():
    letters = " ".join(f"f{i}" for i in range(20))
    text = parse_rule(f"{letters} -> {letters}").attribute_text([(2,) * 20], [(2,) * 20])
    assert "y, z, z_1, z_2]" in text


@pytest.mark.parametrize(
    ("rule", "options", "text"),
    [
        ("i j", {}, "write factors of operands"),
        ("i .. -> i", {}, "write factors of operands"),
        ("i (j -> i", {}, "balanced"),
        ("i ) -> i", {}, "balanced"),
        ("i (j) -> i", {}, "at least two factors"),
        ("i ... -> i", {}, "leading dimensions only"),
        ("i 2j -> i", {}, "a factor must be a letter"),
        ("i-j -> i", {}, "a factor must be a letter"),
        ("i (j k) -> i", {"j": 2}, "'k' needs a size"),
        ("i -> i", {"i": 2}, "size of its dimension already"),
        ("i -> i", {"reduction_factors": ("k",)}, "'k' is not used"),
        (
            "i -> i",
            {"reduction_factors": ("i",), "permutation_factors": ("i",)},
            "said to be two things",
        ),
    ],
)
def test_what_is_no_rule_is_refused(rule, options, text):
    with pytest.raises(ShardingArgumentError, match=text):
        parse_rule(rule, **options)


def test_factors_must_make_up_a_dimension():
    with pytest.raises(ShardingArgumentError, match="can't be made of a b"):
        parse_rule("(a b) -> (a b)", a=2, b=3).attribute_text([(8,)], [(8,)])


def test_a_mesh_of_one_device_needs_no_parts():
    called = []
    square = custom_partitioning(lambda x: x * x)
    square.def_partition(lambda *args: called.append(args), sharding_rule="i -> i")
    mesh = pl.sharding.AbstractMesh((1,), ("x",))
    x = pl.ShapeDtypeStruct((8,), np.float32, sharding=pl.NamedSharding(mesh, pl.P("x")))
    assert "CustomSPMDPartitioning" not in pl.jit(square).lower(x).as_text()
    assert not called


def test_factors_of_a_kind_are_in_the_order_of_their_appearance():
    """There are more than Shardy has letters for: z_10 comes after z_2."""
    names = [f"f{i}" for i in range(30)]
    text = ", ".join(names)
    rule = parse_rule(f"{text} -> f0", need_replication_factors=names[::-1])
    shown = rule.attribute_text([(2,)] * 30, [(2,)])
    symbols = shown.partition("need_replication={")[2].partition("}")[0].split(", ")
    assert symbols[-3:] == ["z_10", "z_11", "z_12"]
    assert symbols.index("z_9") < symbols.index("z_10")
