"""Laws of differentiation and batching, for functions made of everything that transforms or holds programs.

Each function maps a float64 scalar to one. Its derivatives by forward mode, by reverse mode and by differences agree;
so do all orders of jit, vmap and grad, and higher derivatives.
"""

import itertools

import numpy as np
import pytest
from rotation import rotating

import pellucid
from pellucid import grad, jit, jvp, lax, vmap
from pellucid._machine.primitives.transcendental import cos, exp, sin, tanh


@pytest.fixture(autouse=True)
def in_float64():
    with pellucid.enable_x64(True):
        yield


def plain(x):
    return sin(x) * exp(0.3 * x) + x * x


def jitted(x):
    return jit(plain)(x) * jit(lambda a, b: a + b * x)(x, 2.0)


def scanned(x):
    carry, ys = lax.scan(lambda c, i: (sin(c * x) + i, c * c), x, np.arange(3.0))
    return carry + ys[1]


def scanned_backwards_and_unrolled(x):
    return lax.scan(
        lambda c, i: (tanh(c + x * i), None), x * x, np.arange(5.0), reverse=True, unroll=2
    )[0]


def nested_scan(x):
    inner = lambda c, i: (c * cos(x) + i, None)
    return lax.scan(
        lambda c, i: (lax.scan(inner, c + i, np.arange(2.0))[0], None), x, np.arange(2.0)
    )[0]


def counted(x):
    return lax.fori_loop(0, 3, lambda i, v: sin(v) + x * i, x)


def branched(x):
    return lax.cond(x > 0.0, lambda x: x * sin(x), exp, x) + lax.switch(1, [sin, cos, tanh], x)


def branch_in_scan(x):
    step = lambda c, i: (lax.cond(i < 1.5, lambda c: c * x, lambda c: sin(c) + x, c), None)
    return lax.scan(step, x, np.arange(3.0))[0]


def batched(x):
    ys = vmap(lambda a: plain(a * x))(np.arange(3.0))
    return lax.reduce_sum(ys, (0,))


def batched_branches(x):
    ys = vmap(lambda p, a: lax.cond(p, sin, lambda a: a * x, a * x))(
        np.array([True, False, True]), np.arange(3.0)
    )
    return lax.reduce_sum(ys, (0,))


def derivative_inside(x):
    return x * grad(plain)(x) + jvp(plain, (x,), (x,))[1]


@pellucid.custom_jvp
def with_own_forward(x):
    return sin(x) * x


with_own_forward.defjvp(lambda p, t: (with_own_forward(*p), (cos(p[0]) * p[0] + sin(p[0])) * t[0]))


@pellucid.custom_vjp
def with_own_reverse(x):
    return sin(x) * x


with_own_reverse.defvjp(
    lambda x: (with_own_reverse(x), x), lambda x, g: (g * (cos(x) * x + sin(x)),)
)


def own_forward_in_scan(x):
    return lax.scan(lambda c, _: (with_own_forward(c) + x, None), x, None, length=3)[0]


def own_reverse_in_scan(x):
    return lax.scan(lambda c, _: (with_own_reverse(c) + x, None), x, None, length=3)[0]


def rematerialized(x):
    return pellucid.checkpoint(lambda x: sin(tanh(x) * plain(x)))(x)


def rematerialized_scan(x):
    step = pellucid.checkpoint(lambda c, i: (sin(c * i + x), None), prevent_cse=False)
    return lax.scan(step, x, np.arange(3.0))[0]


def rematerialized_policy(x):
    from_name = lambda x: sin(pellucid.ad_checkpoint.checkpoint_name(x * x, "square")) * x
    policy = pellucid.checkpoint_policies.save_only_these_names("square")
    return pellucid.checkpoint(from_name, policy=policy)(x)


def root(x):
    newton = lambda f, y: lax.fori_loop(0, 20, lambda i, y: y - f(y) / grad(f)(y), y)
    return lax.custom_root(
        lambda y: y * y * y + y - x * x - 1.0, 1.0, newton, lambda g, b: b / g(1.0)
    )


def linear_solution(x):
    matvec = lambda y: (2.0 + x * x) * y
    return lax.custom_linear_solve(matvec, sin(x), lambda mv, b: b / mv(1.0), symmetric=True)


def prefixes(x):
    ys = lax.associative_scan(lambda a, b: a * b + 0.0, x * (1.0 + np.arange(4.0) / 4))
    return lax.reduce_sum(ys, (0,))


def reduced(x):
    return lax.reduce(x * (1.0 + np.arange(5.0)), 1.0, lambda a, b: a * b * 1.0, (0,))


SMOOTH = [
    plain, jitted, scanned, scanned_backwards_and_unrolled, nested_scan, counted, branched, branch_in_scan, batched,
    batched_branches, derivative_inside, with_own_forward, own_forward_in_scan, rematerialized, rematerialized_scan,
    rematerialized_policy, root, linear_solution, prefixes, reduced,
]  # fmt: skip
REVERSE_ONLY = [with_own_reverse, own_reverse_in_scan]
POINT = 0.7


def difference(f, x):
    """The central difference, improved once by extrapolation."""
    d = lambda h: (float(f(x + h)) - float(f(x - h))) / (2 * h)
    return (4 * d(5e-4) - d(1e-3)) / 3


def named(functions):
    return pytest.mark.parametrize("f", functions, ids=lambda f: f.__name__)


def rotated(functions):
    """All but the first function rotate."""
    return named(rotating([(f,) for f in functions], lambda _: ""))


@named(SMOOTH)
def test_forward_mode_is_the_difference(f):
    np.testing.assert_allclose(jvp(f, (POINT,), (1.0,))[1], difference(f, POINT), rtol=1e-8)


@named(SMOOTH + REVERSE_ONLY)
def test_reverse_mode_is_the_difference(f):
    np.testing.assert_allclose(grad(f)(POINT), difference(f, POINT), rtol=1e-8)


@named(SMOOTH)
def test_linear_approximation_is_forward_mode(f):
    value, derivative = pellucid.linearize(f, POINT)
    np.testing.assert_allclose(value, f(POINT), rtol=1e-12)
    np.testing.assert_allclose(derivative(2.0), jvp(f, (POINT,), (2.0,))[1], rtol=1e-12)


@rotated(SMOOTH + REVERSE_ONLY)
def test_batching_is_a_loop(f):
    points = np.array([0.2, 0.7, 1.1])
    np.testing.assert_allclose(vmap(f)(points), [float(f(p)) for p in points], rtol=1e-12)
    np.testing.assert_allclose(
        vmap(grad(f))(points), [float(grad(f)(p)) for p in points], rtol=1e-12
    )


@rotated(SMOOTH + REVERSE_ONLY)
def test_all_orders_of_jit_vmap_and_grad_agree(f):
    points = np.array([0.2, 0.7, 1.1])
    expected = np.array([float(grad(f)(p)) for p in points])
    for order in itertools.permutations(["jit", "vmap", "grad"]):
        g, seen = f, []
        for name in order:
            if (
                name == "grad" and "vmap" in seen
            ):  # the gradient of the sum, as each element has its own
                g = grad(lambda x, g=g: lax.reduce_sum(g(x), (0,)))
            else:
                g = {"jit": jit, "vmap": vmap, "grad": grad}[name](g)
            seen.append(name)
        np.testing.assert_allclose(g(points), expected, rtol=1e-12, err_msg=str(order))


@rotated(SMOOTH)
def test_second_derivatives_of_all_modes_agree(f):
    forward = lambda f: lambda x: jvp(f, (x,), (1.0,))[1]
    expected = difference(grad(f), POINT)
    for outer, inner in itertools.product([grad, forward], repeat=2):
        np.testing.assert_allclose(outer(inner(f))(POINT), expected, rtol=1e-7)
        np.testing.assert_allclose(jit(outer(jit(inner(f))))(POINT), expected, rtol=1e-7)


@rotated([plain, scanned, branched, with_own_forward, rematerialized, root])
def test_fourth_derivative_is_the_difference_of_the_third(f):
    third = grad(grad(grad(f)))
    np.testing.assert_allclose(grad(third)(POINT), difference(third, POINT), rtol=1e-6)


@named(SMOOTH + REVERSE_ONLY)
def test_programs_are_well_typed(f):
    with pellucid.enable_checks(True):
        jit(vmap(grad(f)))(np.array([0.2, 0.7]))
        jit(f)(POINT)


def test_perturbations_of_nested_derivatives_are_not_confused():
    assert float(grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0)) == 6.0
    assert (
        float(jvp(lambda x: x * jvp(lambda y: x + y, (1.0,), (1.0,))[1], (3.0,), (1.0,))[1]) == 1.0
    )
    inner = lambda x: grad(lambda y: y + x)(1.0)
    assert float(grad(lambda x: x * inner(x))(2.0)) == 1.0
    assert (
        float(
            vmap(lambda a: grad(lambda x: x * vmap(lambda b: a * b)(np.ones(2))[0])(a))(
                np.array([3.0])
            )[0]
        )
        == 3.0
    )


def test_empty_batches_and_loops():
    assert vmap(plain)(np.zeros((0,))).shape == (0,)
    assert vmap(grad(scanned))(np.zeros((0,))).shape == (0,)
    f = lambda x: lax.scan(lambda c, y: (c * x + y, c), x, np.zeros((0,)))
    assert float(grad(lambda x: f(x)[0])(2.0)) == 1.0
    assert f(2.0)[1].shape == (0,)


def test_complex_derivatives():
    z = np.array(0.5 + 0.25j)
    np.testing.assert_allclose(grad(lambda z: z * z * z, holomorphic=True)(z), 3 * z * z)
    np.testing.assert_allclose(jvp(lambda z: z * z, (z,), (1.0 + 0j,))[1], 2 * z)
    size = lambda z: lax.real(z * lax.conj(z))
    np.testing.assert_allclose(grad(size)(z), 2 * np.conj(z))
    scanned_power = lambda z: lax.scan(lambda c, _: (c * z, None), z, None, length=2)[0]
    np.testing.assert_allclose(grad(scanned_power, holomorphic=True)(z), 3 * z * z)


def test_forward_mode_goes_through_loops_of_unknown_length():
    f = lambda x, n: lax.fori_loop(0, n, lambda i, v: v * x, 1.0)
    assert float(jit(lambda x, n: jvp(lambda x: f(x, n), (x,), (1.0,))[1])(2.0, 3)) == 12.0
    assert float(pellucid.linearize(lambda x: jit(f)(x, 3), 2.0)[1](1.0)) == 12.0
    np.testing.assert_allclose(
        vmap(lambda x, n: jvp(lambda x: f(x, n), (x,), (1.0,))[1])(
            np.array([2.0, 3.0]), np.array([3, 1])
        ),
        [12.0, 1.0],
    )
