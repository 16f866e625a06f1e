"""`in_shardings` and `out_shardings` of jit."""

from __future__ import annotations

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, DeviceError
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.base.tree import TreeStructureError
from pellucid._machine.sharding.errors import (
    IndivisibleError,
    MissingMeshError,
    PartitionSpecError,
    ShardingArgumentError,
)
from pellucid._machine.sharding.layout import Format
from pellucid.experimental.pjit import pjit
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P, set_mesh

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))


@pytest.fixture(scope="module")
def over(mesh):
    return lambda *spec: NamedSharding(mesh, P(*spec))


def test_arguments_go_and_results_come_as_stated(over):
    f = pl.jit(lambda x: x * 2, in_shardings=over("x"), out_shardings=over(None, "y"))
    result = f(X)
    np.testing.assert_array_equal(result, X * 2)
    assert result.sharding is over(None, "y")
    assert f.lower(X).compile().input_shardings[0][0] is over("x")


def test_trees_and_prefixes_place_parts(over):
    f = pl.jit(
        lambda p, x: {"sum": p["w"] + x, "parts": (p["b"], x)},
        in_shardings=({"w": over("x"), "b": None}, over("y")),
        out_shardings={"sum": over("y"), "parts": over("x")},
    )
    results = f({"w": X, "b": X}, X)
    assert results["sum"].sharding is over("y")
    assert [x.sharding for x in results["parts"]] == [over("x")] * 2
    inputs, _ = f.lower({"w": X, "b": X}, X).compile().input_shardings
    assert (inputs[0]["w"], inputs[1]) == (over("x"), over("y"))


def test_static_arguments_are_left_out(over):
    f = pl.jit(lambda n, x: n * x, static_argnums=0, in_shardings=(over("x"),))
    np.testing.assert_array_equal(f(3, X), 3 * X)


def test_specs_are_over_the_current_mesh(mesh, over):
    f = pl.jit(lambda x: x, in_shardings=P("x"), out_shardings=P("y"))
    with set_mesh(mesh):
        assert f(X).sharding is over("y")
    with mesh:
        assert f(X).sharding is over("y")
    check_message(
        lambda: f(X), MissingMeshError, "`<lambda>`: in_shardings got a PartitionSpec", "set_mesh"
    )
    assert issubclass(MissingMeshError, RuntimeError)


def test_arrays_nobody_placed_are_brought_there_each_time(over):
    f = pl.jit(lambda x: x + 1, in_shardings=over("x"))
    x = pl.jit(lambda x: x)(X)
    with counting(CompilationFinished) as compiled:
        for _ in range(3):
            np.testing.assert_array_equal(f(x), X + 1)
    assert compiled.count == 1


def test_arrays_that_were_placed_otherwise_are_refused(over):
    f = pl.jit(lambda x: x, in_shardings=over("y"))
    check_message(
        lambda: f(pl.device_put(X, over("x"))), DeviceError, "x: f32[8,4] is placed as", "P('y',)"
    )
    check_message(lambda: f(pl.device_put(X, pl.devices()[0])), DeviceError, "x: f32[8,4] on cpu:0")
    assert f(pl.device_put(X, over("y", None))).sharding.spec == P("y")


def test_donated_arguments_may_be_placed(over):
    f = pl.jit(lambda x: x + 1, donate_argnums=0, in_shardings=over("x"), out_shardings=over("x"))
    x = pl.device_put(X, over("x"))
    np.testing.assert_array_equal(f(x), X + 1)
    assert x.is_deleted()


def test_in_another_program_they_are_constraints(over):
    inner = pl.jit(lambda y: y * 2, in_shardings=over("x"), out_shardings=over("y"))
    program = pl.make_jaxpr(lambda x: inner(x) + 1)(X)
    [call, _] = program.equations
    assert call.params.in_shardings == (over("x"),)
    names = [e.primitive.name for e in call.params.jaxpr.equations]
    assert names == ["sharding_constraint", "mul", "sharding_constraint"]
    assert pl.jit(lambda x: inner(x) + 1)(X).sharding is over("y")


def test_transformations_keep_them(over):
    inner = pl.jit(lambda y: y * y, in_shardings=over("x"), out_shardings=over("x"))
    gradient = pl.jit(pl.grad(lambda x: inner(x).sum()))(X)
    np.testing.assert_array_equal(gradient, 2 * X)
    assert gradient.sharding is over("x")
    batched = pl.vmap(inner)(np.stack([X, X]))
    np.testing.assert_array_equal(batched, np.stack([X * X] * 2))
    assert batched.sharding.spec == P(None, "x")


def test_they_key_the_programs_that_functions_share(over):
    functions = [pl.jit(lambda x: x, out_shardings=over(axis)) for axis in ("x", "y")]
    assert [f(X).sharding for f in functions] == [over("x"), over("y")]


def test_pjit_is_jit(over):
    assert pjit(lambda x: x, over(), over("x"))(X).sharding is over("x")


def test_what_does_not_fit_is_said(mesh, over):
    def jitted(**shardings):
        return pl.jit(lambda x: x, **shardings)

    check_message(
        lambda: jitted(in_shardings=over("x", None, "y"))(X),
        PartitionSpecError,
        "`<lambda>`: in_shardings: x of shape (8, 4)",
    )
    check_message(
        lambda: jitted(out_shardings=over("x", None, "y"))(X),
        PartitionSpecError,
        "out_shardings: the result of shape",
    )
    check_message(
        lambda: jitted(in_shardings=over("x"))(X[:3]),
        IndivisibleError,
        "size 3",
        "x of shape (3, 4)",
    )
    check_message(
        lambda: jitted(out_shardings=over("x"))(X[:3]),
        IndivisibleError,
        "the result of shape (3, 4)",
    )
    check_message(
        lambda: jitted(out_shardings=over(P.UNCONSTRAINED, "y"))(X),
        PartitionSpecError,
        "leave single dimensions",
    )
    check_message(
        lambda: jitted(in_shardings=(over("x"), None))(X),
        TreeStructureError,
        "in_shardings",
        "tuple of 2",
    )
    check_message(
        lambda: jitted(out_shardings={"a": None, "b": over("x")})(X),
        TreeStructureError,
        "out_shardings",
    )
    check_message(
        lambda: jitted(in_shardings=over("x"))(x=X),
        ArgumentValueError,
        "keywords: x",
        "by position",
    )
    check_message(
        lambda: jitted(in_shardings="x")(X),
        ShardingArgumentError,
        "placed by a Sharding",
        "str ('x')",
    )
    with set_mesh(mesh):
        check_message(lambda: jitted(in_shardings=P("z"))(X), PartitionSpecError, "names axis 'z'")
        check_message(
            lambda: jitted(in_shardings=P("x", "x"))(X), PartitionSpecError, "more than once"
        )
    assert jitted(out_shardings=Format(None, over("x")))(X).sharding is over("x")


def test_none_is_whole_over_the_entered_mesh_for_pjit(mesh, over):
    whole = NamedSharding(mesh, P())
    with mesh:
        assert pjit(lambda x: x * 2, out_shardings=None)(X).sharding == whole
        assert (
            pjit(lambda x: x * 2, out_shardings=None)(pl.device_put(X, over("x"))).sharding == whole
        )
        cut, both = pjit(lambda x: (x * 2, x), out_shardings=(P("x"), None))(X)
        assert (cut.sharding, both.sharding) == (over("x"), whole)
        with pytest.raises(ValueError, match="otherwise than its `in_shardings` say"):
            pjit(lambda x: x, in_shardings=None)(pl.device_put(X, over("x")))
        assert pl.jit(lambda x: x * 2, out_shardings=None)(X).sharding.num_devices == 1
    assert (
        pjit(lambda x: x * 2, in_shardings=None, out_shardings=None)(x=X).sharding.num_devices == 1
    )
