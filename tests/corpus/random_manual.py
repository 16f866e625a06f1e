"""Random programs of collectives over a mesh of eight devices, the same for one seed in every process.

A program is a list of steps, texts over `lax`, `jnp` and the value `a` of one position, float32[8]; `w` is the same at
all positions, and `zero` is a zero that differs. `run` gives its value with derivatives in one of the `WAYS`.
"""

import random

import numpy as np

SIZES = {"x": 4, "y": 2}
N_ELEMENTS = 8

STEPS = (
    "jnp.sin(a) + w",
    "a[::-1] * w",
    "lax.psum(a, {axes}) / 8 + zero",
    "a - jnp.tanh(lax.pmean(a, {axes}))",
    "a - lax.pmax(lax.stop_gradient(a), {axes})",
    "a / (1 + lax.pmin(lax.stop_gradient(a), {axes}) ** 2)",
    "a * 0.2 * (1 + lax.axis_index({axes}))",
    "a / lax.axis_size({axes}) + lax.psum(w, {axes}) / 8 + zero",
    "lax.all_gather(a, {axes}).sum(0) * 0.2",
    "lax.all_gather(a, {axes}, axis=1)[:, -1]",
    "lax.all_gather(a, {axes}, tiled=True)[3:11]",
    "jnp.tile(lax.psum_scatter(a, {axes}, tiled=True), {size}) / 4",
    "jnp.tile(lax.psum_scatter(a.reshape({size}, -1), {axes}), {size}) / 4",
    "lax.all_to_all(a, {axes}, 0, 0, tiled=True)",
    "lax.all_to_all(a.reshape({size}, -1), {axes}, 0, 0).reshape(-1)",
    "lax.ppermute(a, {axes}, [(i, (i + {shift}) % {size}) for i in range({size})]) * a",
    "a + lax.ppermute(a, {axes}, [(i, i + 1) for i in range({size} - 1)])",
    "lax.pshuffle(a, {axes}, [(i + {shift}) % {size} for i in range({size})])",
    "lax.scan(lambda c, r: (c + 0.1 * lax.psum(c, {axes}), r * c.sum()), a, a)[1]",
    "lax.fori_loop(0, 2, lambda _, c: jnp.sin(c + lax.pmean(c, {axes})), a)",
    "lax.cond(lax.psum(a.sum(), ('x', 'y')) > 0, lambda a: a - lax.pmean(a, {axes}), lambda a: -a, a)",
    "lax.cond(a[0] > 0, lambda a: a * a, lambda a: jnp.sin(a), a)",
    "jax.checkpoint(lambda a: a * lax.psum(jnp.sin(a), {axes}))(a)",
    "jax.jit(lambda a, w: lax.all_gather(a * w, {axes}).max(0))(a, w)",
    "jax.grad(lambda a: (a * lax.pmean(jnp.cos(a), {axes})).sum())(a)",
    "jax.jvp(lambda a: lax.psum(a * a, {axes}), (a,), (w + zero,))[1] / 8 + zero",
    "jax.vmap(lambda r: lax.psum(r, {axes}) / 8 + r, in_axes=1, out_axes=1)(a.reshape(4, 2)).reshape(-1)",
    "jax.vmap(lambda r: lax.all_to_all(r, {axes}, 0, 0, tiled=True))(jnp.stack([a, w * a])).sum(0)",
)  # fmt: skip
ALL_AXES = ("x", "y", ("x", "y"), ("y", "x"))


def steps(seed):
    """The texts of a program's three to six steps."""
    chosen = random.Random(seed)
    made = []
    for _ in range(chosen.randint(3, 6)):
        axes = chosen.choice(ALL_AXES)
        size = SIZES[axes] if isinstance(axes, str) else 8
        shift = chosen.randrange(1, size)
        made.append(chosen.choice(STEPS).format(axes=repr(axes), size=size, shift=shift))
    return made


def one_position(jax, seed):
    """The program at one position, as a function of (a, w)."""
    scope = {"jax": jax, "lax": jax.lax, "jnp": jax.numpy}
    functions = [eval(f"lambda a, w, zero: {text}", scope) for text in steps(seed)]

    def program(a, w):
        zero = 0 * a
        for function in functions:
            a = function(a, w, zero)
        return a

    return program


def over_devices(jax, seed, check_vma):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    P = jax.sharding.PartitionSpec
    cut = P(("x", "y"))
    f = one_position(jax, seed)
    return jax.shard_map(f, mesh=mesh, in_specs=(cut, P()), out_specs=cut, check_vma=check_vma)


def mapped(jax, seed):
    return over_devices(jax, seed, True)


def unchecked(jax, seed):
    return over_devices(jax, seed, False)


def vmapped(jax, seed):
    """The same without devices."""
    f = jax.vmap(one_position(jax, seed), in_axes=(0, None), axis_name="y")
    f = jax.vmap(f, in_axes=(0, None), axis_name="x")
    return lambda a, w: f(a.reshape(4, 2, N_ELEMENTS), w).reshape(-1)


WAYS = {"mapped": mapped, "unchecked": unchecked, "vmapped": vmapped}


def run(jax, way, seed, dtype="float32"):
    """(value, directional derivative, gradients) of a program."""
    f = WAYS[way](jax, seed)
    rng = np.random.default_rng(seed)
    a, w, da, dw, cotangent = (
        rng.standard_normal(n).astype(dtype) for n in (64, N_ELEMENTS, 64, N_ELEMENTS, 64)
    )

    def everything(a, w, da, dw):
        gradients = jax.grad(lambda a, w: (f(a, w) * cotangent).sum(), (0, 1))(a, w)
        return jax.jvp(f, (a, w), (da, dw)), gradients

    return jax.jit(everything)(a, w, da, dw)
