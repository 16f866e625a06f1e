"""One use of each collective, as text over `lax` and the value `x` of one position along the axes i and j.

`ROWS` maps a name to (expression, shape at one position, dtype). `run` evaluates a row in one of the `WAYS`.
"""

import numpy as np

SIZES = {"i": 4, "j": 2}
GROUPS = [[0, 2], [3, 1]]

RAGGED = (
    "lax.ragged_all_to_all(x, 0 * x, SHIFTS, SIZES, lax.axis_index('i') * ONES,"
    " SIZES[lax.axis_index('i')] * ONES, axis_name='i')"
)
ROWS = {
    "psum": ("lax.psum(x, 'i')", (3,), "float32"),
    "psum of two axes": ("lax.psum(x, ('i', 'j'))", (3,), "float32"),
    "psum of integers": ("lax.psum(x, 'j')", (2,), "int32"),
    "psum of booleans": ("lax.psum(x > 0, 'i')", (2,), "float32"),
    "psum of a number": ("x * lax.psum(1, ('i', 'j'))", (2,), "float32"),
    "psum of a tree": ("lax.psum({'a': x, 'b': (x * 2, 3.0)}, 'i')", (2,), "float32"),
    "psum of complex": ("lax.psum(x * (1 + 2j), 'i')", (2,), "float32"),
    "psum in groups": ("lax.psum(x, 'i', axis_index_groups=GROUPS)", (3,), "float32"),
    "psum squared": ("lax.psum(x * x, 'i') * x", (3,), "float32"),
    "pmean": ("lax.pmean(x, 'i')", (3,), "float32"),
    "pmean of integers": ("lax.pmean(x, 'i')", (3,), "int32"),
    "pmean of two axes": ("lax.pmean(x, ('j', 'i')) * x", (), "float32"),
    "pmax": ("lax.pmax(x, 'i')", (3,), "float32"),
    "pmax of two axes": ("lax.pmax(x, ('i', 'j'))", (3,), "int32"),
    "pmin": ("lax.pmin(x, 'j')", (2, 2), "float32"),
    "pmin in groups": ("lax.pmin(x, 'i', axis_index_groups=GROUPS)", (2,), "float32"),
    "axis_index": ("x + lax.axis_index('i')", (2,), "float32"),
    "axis_index of two axes": ("x * lax.axis_index(('j', 'i'))", (2,), "float32"),
    "axis_size": ("x * lax.axis_size(('j', 'i'))", (2,), "float32"),
    "all_gather": ("lax.all_gather(x, 'i')", (3,), "float32"),
    "all_gather at 1": ("lax.all_gather(x, 'i', axis=1)", (3, 2), "float32"),
    "all_gather of scalars": ("lax.all_gather(x, 'j')", (), "float32"),
    "all_gather tiled": ("lax.all_gather(x, 'i', axis=-1, tiled=True)", (2, 3), "float32"),
    "all_gather of two axes": ("lax.all_gather(x, ('j', 'i'), tiled=True)", (2,), "float32"),
    "all_gather in groups": (
        "lax.all_gather(x, 'i', axis_index_groups=GROUPS, axis=1)", (3,), "float32"
    ),
    "all_gather invarying": ("lax.all_gather(x, 'i', to='invarying')", (3,), "float32"),
    "all_gather invarying tiled": (
        "lax.all_gather(x * x, 'i', to='invarying', tiled=True)", (2,), "float32"
    ),
    "psum_scatter": ("lax.psum_scatter(x, 'i')", (4, 3), "float32"),
    "psum_scatter tiled": (
        "lax.psum_scatter(x, 'i', scatter_dimension=1, tiled=True)", (3, 8), "float32"
    ),
    "psum_scatter of two axes": ("lax.psum_scatter(x, ('j', 'i'), tiled=True)", (16,), "float32"),
    "psum_scatter in groups": (
        "lax.psum_scatter(x, 'i', axis_index_groups=GROUPS)", (2, 3), "float32"
    ),
    "all_to_all": ("lax.all_to_all(x, 'i', 0, 0)", (4, 3), "float32"),
    "all_to_all forward": ("lax.all_to_all(x, 'i', 0, 1)", (4, 3), "float32"),
    "all_to_all backward": ("lax.all_to_all(x, 'i', 1, 0)", (3, 4), "float32"),
    "all_to_all tiled": ("lax.all_to_all(x, 'i', 1, 0, tiled=True)", (3, 8), "float32"),
    "all_to_all of two axes": (
        "lax.all_to_all(x, ('i', 'j'), 0, 1, tiled=True)", (8, 3), "float32"
    ),
    "all_to_all in groups": (
        "lax.all_to_all(x, 'i', 0, 0, axis_index_groups=GROUPS)", (2, 3), "float32"
    ),
    "ppermute": ("lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 3), (3, 0)])", (3,), "float32"),
    "ppermute to some": ("lax.ppermute(x, 'i', [(0, 1), (3, 2)])", (3,), "float32"),
    "ppermute along two axes": (
        "lax.ppermute(x, ('j', 'i'), [(k, (k + 3) % 8) for k in range(8)])", (2,), "float32"
    ),
    "pshuffle": ("lax.pshuffle(x, 'i', [2, 0, 3, 1])", (3,), "float32"),
    "pswapaxes": ("lax.pswapaxes(x, 'i', 1)", (2, 4), "float32"),
    "pbroadcast": ("lax.pbroadcast(x, 'i', 2)", (3,), "float32"),
    "pbroadcast of booleans": ("lax.pbroadcast(x > 0, 'j', 1)", (3,), "float32"),
    "ragged_all_to_all": (RAGGED, (5,), "float32"),
}  # fmt: skip

UNKNOWN = {
    "vmapped": (
        "psum in groups", "pmin in groups", "all_gather of two axes", "all_gather in groups",
        "psum_scatter of two axes", "psum_scatter in groups", "all_to_all in groups", "ppermute to some",
        "ppermute along two axes", "ragged_all_to_all", "all_gather invarying", "all_gather invarying tiled",
        "pbroadcast", "pbroadcast of booleans",
    ),
    "mapped": (
        "psum in groups", "pmin in groups", "pbroadcast", "pbroadcast of booleans", "ragged_all_to_all",
        "axis_index of two axes",
    ),
    "unchecked": ("pbroadcast", "pbroadcast of booleans", "ragged_all_to_all"),
}  # fmt: skip
"""Rows that the reference can't evaluate on the CPU in that way."""

UNKNOWN_COTANGENTS = (
    "all_to_all forward", "all_to_all backward", "all_gather invarying", "all_gather invarying tiled",
)  # fmt: skip
"""Rows whose transposes have another shape in the reference, or, without types, are no adjoints."""


def values(name):
    """The values of all positions."""
    _, shape, dtype = ROWS[name]
    rng = np.random.default_rng(len(name))
    return np.asarray(rng.standard_normal((4, 2, *shape)) * 2).astype(dtype)


def function_of(jax, name):
    """The row as a function of one position's value."""
    array = jax.numpy.array
    scope = {"lax": jax.lax, "GROUPS": GROUPS, "ONES": array([1, 1, 1, 1])}
    scope |= {"SHIFTS": array([0, 2, 3, 3]), "SIZES": array([2, 1, 0, 1])}
    return eval(f"lambda x: {ROWS[name][0]}", scope)


def vmapped(jax, name):
    return jax.vmap(jax.vmap(function_of(jax, name), axis_name="j"), axis_name="i")


def over_devices(jax, name, check_vma):
    mesh = jax.make_mesh((4, 2), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    spec = jax.sharding.PartitionSpec("i", "j")
    f = function_of(jax, name)

    def one(x):
        return jax.tree.map(lambda y: jax.numpy.asarray(y)[None, None], f(x[0, 0]))

    return jax.jit(
        jax.shard_map(one, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
    )


def mapped(jax, name):
    return over_devices(jax, name, True)


def unchecked(jax, name):
    return over_devices(jax, name, False)


WAYS = {"vmapped": vmapped, "mapped": mapped, "unchecked": unchecked}


def run(jax, way, name):
    """The results of a row at all positions."""
    return WAYS[way](jax, name)(jax.numpy.asarray(values(name)))


def pulled_back(jax, way, name):
    """Cotangents of the values, where each result's cotangent is its cosine."""
    results, pull = jax.vjp(WAYS[way](jax, name), jax.numpy.asarray(values(name)))
    return pull(jax.tree.map(jax.numpy.cos, results))
