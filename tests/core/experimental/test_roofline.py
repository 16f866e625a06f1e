"""Estimated costs of functions on a device: contractions, fused operations, loops, exchanges, live values."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid.experimental import io_callback
from pellucid.experimental.roofline import (
    RooflineResult,
    RooflineShape,
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)
from pellucid.extend.core import Primitive
from pellucid.sharding import AxisType, PartitionSpec as P

X = np.ones((8, 16), np.float32)
W = np.ones((16, 4), np.float32)


def costs(f, *args, **options) -> RooflineResult:
    return roofline(f, **options)(*args)[1]


def test_contractions_read_and_write_memory() -> None:
    shape, result = roofline(lambda x, w: x @ w)(X, W)
    assert (shape.shape, shape.dtype) == ((8, 4), np.float32)
    n_bytes = 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert result == RooflineResult(
        flops=1024, unfused_flops=1024, hbm_bytes=n_bytes, unfused_hbm_bytes=n_bytes, peak_hbm_bytes=768
    )  # fmt: skip
    assert costs(lambda x, w: x @ w, X, W, pin_lhs_in_vmem=True).hbm_bytes == n_bytes - X.nbytes
    assert costs(lambda x, w: x @ w, X, W, pin_rhs_in_vmem=True).hbm_bytes == n_bytes - W.nbytes


def test_operations_on_elements_are_fused() -> None:
    result = costs(lambda x: jnp.sin(x) + x, X)
    assert (result.flops, result.hbm_bytes) == (0, 0)
    assert (result.unfused_flops, result.unfused_hbm_bytes) == (256, 5 * X.nbytes)
    assert result.peak_hbm_bytes == 2 * X.nbytes


def test_programs_within_run_as_often_as_known() -> None:
    one = costs(jnp.sin, X)
    looped = costs(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=5)[0], X)
    assert looped.unfused_flops == 5 * one.unfused_flops
    assert looped.peak_hbm_bytes == one.peak_hbm_bytes
    chosen = costs(lambda x: lax.cond(True, jnp.sin, lambda x: x @ x.T @ x, x), X)
    assert chosen.flops == 2 * 2 * 8 * 8 * 16
    assert costs(lambda x: pl.jit(jnp.sin)(x), X) == one
    # The branch with the most bytes isn't the one with the most operations.
    products, sums = (lambda x: (x @ x.T @ x).sum()), (lambda x: sum([x + i for i in range(9)]).sum())  # fmt: skip
    either = costs(lambda x: lax.cond(x[0, 0] > 0, products, sums, x), X)
    assert (either.flops, costs(products, X).flops) == (4096, 4096)
    assert either.unfused_hbm_bytes > costs(sums, X).unfused_hbm_bytes
    squares = lambda a, b: lax.add(a, b * b)
    windows = costs(lambda x: lax.reduce_window(x, np.float32(0), squares, (2, 2), (1, 1), "VALID"), X)  # fmt: skip
    assert windows.unfused_flops == 2 * 3 * 7 * 15
    with pytest.raises(UnsupportedError, match=r"how often `while` runs isn't known"):
        costs(lambda x: lax.while_loop(lambda x: x.sum() < 9, jnp.sin, x), X)


@pytest.mark.parametrize(
    ("function", "out_spec", "axes", "n_bytes", "steps"),
    [
        (lambda x: lax.psum(x, "x"), P(None, "y"), "x", 64, 4),
        (lambda x: lax.psum(x, ("x", "y")), P(), "xy", 56, 16),
        (lambda x: lax.pmax(x, "y"), P("x"), "y", 96, 8),
        (lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True), P("x", "y"), "y", 48, 4),
        (lambda x: lax.all_gather(x, "x", tiled=True), P("x", "y"), "x", 64, 2),
        (lambda x: lax.ppermute(x, "y", [(0, 1), (1, 0)]), P("x", "y"), "y", 64, 1),
        (lambda x: lax.ppermute(x, "y", [(0, 2)]), P("x", "y"), "y", 64, 2),
        (lambda x: lax.ppermute(x, "y", [(i, (i + 1) % 4) for i in range(4)]), P("x", "y"), "y", 64, 1),
        (lambda x: lax.all_to_all(x, "y", 0, 1, tiled=True), P("x", "y"), "y", 64, 2),
    ],
)  # fmt: skip
def test_exchanges_go_along_rings(function, out_spec, axes, n_bytes, steps) -> None:
    """Of 64 bytes on each of 2 x 4 devices; the figures are the reference's."""
    mesh = pl.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    result = costs(function, X, mesh=mesh, in_specs=(P("x", "y"),), out_specs=out_spec)
    assert result.ici_bytes == dict.fromkeys(axes, n_bytes)
    assert result.ici_latency == dict.fromkeys(axes, steps)
    assert result.peak_hbm_bytes in (64, 128)


@pytest.mark.parametrize(
    ("axes", "perm", "n_ways", "steps"),
    [
        # Two ways share the second link, and each device sends to the next in one of two directions.
        ("y", [(0, 2), (1, 3)], {"y": 2}, {"y": 2}),
        ("y", [(0, 1), (1, 0)], {"y": 1}, {"y": 1}),
        ("y", [(0, 0)], {"y": 0}, {"y": 0}),
        # Devices are numbered as in the mesh, in whatever order axes are named: 0 to 5 is a step on each.
        (("x", "y"), [(0, 5)], {"x": 1, "y": 1}, {"x": 2, "y": 2}),
        (("y", "x"), [(0, 5)], {"x": 1, "y": 1}, {"x": 2, "y": 2}),
        (("x", "y"), [(0, 6), (1, 7)], {"x": 1, "y": 2}, {"x": 3, "y": 3}),
        (("x", "y"), [(i, (i + 1) % 8) for i in range(8)], {"x": 1, "y": 1}, {"x": 2, "y": 2}),
        # Within rows nothing goes along `x`.
        (("x", "y"), [(0, 1), (4, 5)], {"x": 0, "y": 1}, {"x": 0, "y": 1}),
        (("x", "y"), [(3, 3)], {"x": 0, "y": 0}, {"x": 0, "y": 0}),
    ],
)  # fmt: skip
def test_ways_of_a_permutation_share_links(axes, perm, n_ways, steps) -> None:
    """Of 64 bytes on each of 2 x 4 devices."""
    mesh = pl.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    result = costs(
        lambda x: lax.ppermute(x, axes, perm), X, mesh=mesh, in_specs=(P("x", "y"),), out_specs=P("x", "y")
    )  # fmt: skip
    assert result.ici_bytes == {axis: 64 * n for axis, n in n_ways.items()}
    assert result.ici_latency == steps


def test_calls_of_python_compute_nothing_on_the_device() -> None:
    def f(x):
        pl.debug.print("{}", x)
        y = pl.pure_callback(lambda x: x, x, x)
        io_callback(lambda x: None, None, x)
        return y @ y.T

    result = costs(f, X)
    product = costs(lambda y: y @ y.T, X)
    assert (result.flops, result.unfused_flops) == (product.flops, product.unfused_flops)
    assert result.hbm_bytes == product.hbm_bytes
    # What Python reads and gives is moved.
    assert result.unfused_hbm_bytes == product.unfused_hbm_bytes + 3 * X.nbytes


def test_costs_of_cotangents() -> None:
    def f(x, w):
        return x @ w

    shape, forward, backward = roofline_and_grad(f, None, None, None)(X, W)
    assert shape.shape == (8, 4)
    assert (forward.flops, backward.flops) == (1024, 2048)
    assert costs(f, X, W, vjp=True) == backward
    mesh = pl.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    _, forward, backward = roofline_and_grad(f, mesh, (P("x"), P()), P("x"))(X, W)
    assert (forward.flops, backward.flops) == (128, 256)
    assert backward.ici_bytes["x"] == 2 * W.nbytes * 7 / 8


def test_programs_are_printed(capsys) -> None:
    costs(jnp.sin, X, print_jaxpr=True)
    assert "sin a" in capsys.readouterr().out


def test_rules_of_users() -> None:
    kernel_p, scale_p, unknown_p = Primitive("kernel"), Primitive("scale"), Primitive("unknown")
    for primitive in (kernel_p, scale_p, unknown_p):
        primitive.def_abstract_eval(lambda x, **params: x)

    @register_roofline(kernel_p)
    def kernel_costs(context, x, *, factor):
        assert (context.primitive, context.avals_out) == (kernel_p, [pl.typeof(X)])
        return RooflineResult(flops=factor * x.size, hbm_bytes=2 * x.bytes)

    register_standard_roofline(scale_p)
    result = costs(lambda x: kernel_p.bind(scale_p.bind(x), factor=3), X)
    assert (result.flops, result.unfused_flops) == (3 * X.size, X.size)
    with pytest.raises(
        UnsupportedError, match=r"costs of `unknown` aren't known.*\n.*register_roofline"
    ):
        costs(unknown_p.bind, X)


def test_results_add_up() -> None:
    total = RooflineResult(flops=1, ici_bytes={"x": 2}, peak_hbm_bytes=5) + RooflineResult(
        flops=2, ici_bytes={"x": 1, "y": 3}, peak_hbm_bytes=4
    )
    assert total == RooflineResult(flops=3, ici_bytes={"x": 3, "y": 3}, peak_hbm_bytes=5)
    assert (total * 2).ici_bytes == {"x": 6, "y": 6}
    assert RooflineResult.zeros() + total == total


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentValueError, match="`mesh`, `in_specs` and `out_specs` together"):
        roofline(jnp.sin, in_specs=P(), out_specs=P())
    with pytest.raises(ArgumentTypeError, match="needs the type of an array"):
        RooflineShape.from_aval(None)
