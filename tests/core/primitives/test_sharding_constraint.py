"""`with_sharding_constraint` and `reshard`."""

from __future__ import annotations

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError, DeviceError
from pellucid._machine.sharding.errors import (
    IndivisibleError,
    MissingMeshError,
    PartitionSpecError,
    ShardingError,
)
from pellucid.lax import with_sharding_constraint
from pellucid.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    auto_axes,
    explicit_axes,
    reshard,
    set_mesh,
)

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def made(*types):
    return Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"), types or None)


@pytest.fixture(scope="module")
def over():
    return lambda *spec: NamedSharding(made(), P(*spec))


@pytest.fixture(scope="module")
def explicit():
    return made(AxisType.Explicit, AxisType.Explicit)


def test_values_are_laid_out_as_stated(over):
    for function in (lambda x: with_sharding_constraint(x * 2, over("y", "x")), lambda x: x * 2):
        constrained = lambda x, function=function: with_sharding_constraint(
            function(x), over("y", "x")
        )
        result = pl.jit(constrained)(X)
        assert result.sharding.spec == P("y", "x")
        np.testing.assert_array_equal(result, X * 2)


def test_outside_of_programs_values_move(over):
    assert with_sharding_constraint(X, over("x")).sharding.spec == P("x")
    moved = with_sharding_constraint(pl.device_put(X, over("x")), over("y", None))
    assert moved.sharding == over("y", None) != over("y")
    open_spec = over("y", P.UNCONSTRAINED)
    assert with_sharding_constraint(X, open_spec).sharding.spec == P("y")
    check_message(
        lambda: with_sharding_constraint(pl.device_put(X, pl.devices()[1]), over("x")),
        DeviceError,
        "on cpu:1",
    )


def test_trees_take_prefixes(over):
    with pl.set_mesh(over("x").mesh):
        tree = pl.jit(
            lambda x: with_sharding_constraint({"a": x, "b": (x, x)}, {"a": None, "b": P("x")})
        )(X)
    assert [x.sharding.spec for x in (tree["a"], *tree["b"])] == [P(), P("x"), P("x")]


def test_unconstrained_dimensions_are_the_compilers(over):
    x = pl.device_put(X, over("x"))
    constraint = over(P.UNCONSTRAINED, "y")
    assert pl.jit(lambda x: with_sharding_constraint(x * 2, constraint))(x).sharding.spec == P(
        "x", "y"
    )


def test_tangents_and_cotangents_are_constrained_alike(over):
    f = lambda x: (with_sharding_constraint(x, over("x")) ** 2).sum()
    gradient = pl.jit(pl.grad(f))(X)
    np.testing.assert_array_equal(gradient, 2 * X)
    assert gradient.sharding.spec == P("x")
    text = str(
        pl.make_jaxpr(
            lambda x, t: pl.jvp(lambda x: with_sharding_constraint(x, over("x")), (x,), (t,))
        )(X, X)
    )
    assert text.count("sharding_constraint[") == 2


def test_batches_take_the_axes_that_vmap_is_told(over):
    f = lambda row: with_sharding_constraint(row, over("y"))
    assert pl.jit(pl.vmap(f, spmd_axis_name="x"))(X).sharding.spec == P("x", "y")
    [equation] = pl.make_jaxpr(pl.vmap(f, in_axes=1, out_axes=1))(X).equations
    assert equation.params.sharding.spec == P("y", P.UNCONSTRAINED)
    check_message(
        lambda: pl.vmap(f, spmd_axis_name="y")(X), ShardingError, "spmd_axis_name: ('y',)"
    )


def test_what_does_not_fit_is_said(over):
    check_message(
        lambda: with_sharding_constraint({"a": X}, over("x", None, "y")),
        PartitionSpecError,
        'x["a"]: f32[8,4]',
    )
    check_message(
        lambda: with_sharding_constraint(X, P("x")), MissingMeshError, "with_sharding_constraint"
    )


def test_resharded_values_show_it_in_their_type(explicit):
    x = pl.device_put(X, NamedSharding(explicit, P("x")))
    assert str(pl.typeof(x)) == "float32[8@x,4]"
    y = reshard(x, NamedSharding(explicit, P(None, "y")))
    assert (str(pl.typeof(y)), y.sharding.spec) == ("float32[8,4@y]", P(None, "y"))
    np.testing.assert_array_equal(y, X)
    with set_mesh(explicit):
        program = pl.make_jaxpr(lambda x: reshard(x, P("y")))(x)
        assert "f32[8@y,4] = reshard a" in str(program)
        whole = pl.jit(lambda x: reshard(x, P()))(x)
    assert whole.is_fully_replicated
    assert str(pl.typeof(whole)) == "float32[8,4]"


def test_cotangents_are_resharded_back(explicit):
    x = pl.device_put(X, NamedSharding(explicit, P("x")))
    with set_mesh(explicit):
        _, back = pl.vjp(lambda x: reshard(x, P("y")), x)
        [gradient] = back(reshard(X, P("y")))
        assert str(pl.typeof(gradient)) == "float32[8@x,4]"


def test_resharding_is_over_explicit_axes_that_divide(over, explicit):
    check_message(
        lambda: reshard(X, over("x")), PartitionSpecError, "'x' is Auto", "with_sharding_constraint"
    )
    check_message(
        lambda: reshard(X[:3], NamedSharding(explicit, P("x"))), IndivisibleError, "size 3"
    )
    check_message(lambda: reshard(X, P("x")), MissingMeshError, "reshard got a PartitionSpec")


def test_a_function_may_leave_axes_to_the_compiler(explicit):
    seen = []

    def body(x):
        seen.append(str(pl.typeof(x)))
        return x + 1

    with set_mesh(explicit):
        x = reshard(X, P("x"))
        result = pl.jit(auto_axes(body, out_sharding=P("y")))(x)
        check_message(lambda: auto_axes(body)(x), ArgumentTypeError, "needs `out_sharding`")
        eager = auto_axes(body, out_sharding=P("y"))(x)
    assert seen == ["float32[8,4]", "float32[8,4]"]
    assert (eager.sharding, str(pl.typeof(eager))) == (
        NamedSharding(explicit, P("y", None)),
        "float32[8@y,4]",
    )
    assert result.sharding.spec == P("y", None)
    np.testing.assert_array_equal(result, X + 1)


def test_a_function_may_take_axes_from_the_compiler(over):
    seen = []

    def body(x):
        seen.append(str(pl.typeof(x)))
        return x

    with set_mesh(made()):
        result = pl.jit(explicit_axes(body, in_sharding=P("x")))(X)
        check_message(lambda: explicit_axes(body)(X), ArgumentTypeError, "needs `in_sharding`")
    assert seen == ["float32[8@x,4]"]
    assert str(pl.typeof(result)) == "float32[8,4]"
    assert result.sharding.spec == P("x")


def test_rows_of_a_cut_array_are_had_by_iteration_and_with_a_stated_layout(explicit):
    with set_mesh(explicit):
        x = reshard(X, P("x", "y"))
        rows = list(x)
        assert [str(pl.typeof(row)) for row in rows] == ["float32[4@y]"] * 8
        np.testing.assert_array_equal(np.stack(rows), X)
        row = pl.jit(lambda x: x.at[3].get(out_sharding=P("y")))(x)
    assert str(pl.typeof(row)) == "float32[4@y]"
    np.testing.assert_array_equal(row, X[3])
