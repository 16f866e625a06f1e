"""Functions that say how devices do them in parts; each program takes the array library first.

`PROGRAMS` lists programs without further arguments. Each gives values, and how its results are laid out.
"""

import importlib

import numpy as np

RNG = np.random.default_rng(3)
A = RNG.normal(size=(8, 16)).astype(np.float32)
B = RNG.normal(size=(16, 4)).astype(np.float32)


def in_parts(jax, function, partition, static_argnums=(), **rule):
    """`function` as a custom_partitioning, with a rule."""
    module = importlib.import_module(f"{jax.__name__}.experimental.custom_partitioning")
    made = module.custom_partitioning(function, static_argnums=static_argnums)
    made.def_partition(partition, **rule)
    return made


def mesh_of(jax):
    types = (jax.sharding.AxisType.Auto,) * 2
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=types)


def placed(jax, *spec):
    return jax.sharding.NamedSharding(mesh_of(jax), jax.sharding.PartitionSpec(*spec))


def shardings_of(jax, described):
    return jax.tree.map(lambda s: s.sharding, described)


def product(jax):
    """A product whose parts along the contracted dimension are summed by hand."""

    def partition(mesh, operands, result):
        NamedSharding, P = jax.sharding.NamedSharding, jax.sharding.PartitionSpec
        (rows, inner), (_, columns) = (tuple(x.sharding.spec) for x in operands)

        def part(a, b):
            return a @ b if inner is None else jax.lax.psum(a @ b, inner)

        made = NamedSharding(mesh, P(rows, columns))
        given = NamedSharding(mesh, P(rows, inner)), NamedSharding(mesh, P(inner, columns))
        return mesh, part, made, given

    return in_parts(
        jax,
        lambda a, b: a @ b,
        partition,
        sharding_rule="i k, k j -> i j",
        reduction_factors=("k",),
    )


def products(jax, *specs):
    shardings = tuple(placed(jax, *spec) for spec in specs)
    result = jax.jit(product(jax), in_shardings=shardings)(A, B)
    return result, str(result.sharding.spec)


def product_of_rows(jax):
    return products(jax, ("x",), ())


def product_of_rows_and_columns(jax):
    return products(jax, ("x",), (None, "y"))


def product_over_both(jax):
    return products(jax, ("x", "y"), ("y",))


def product_on_one_device(jax):
    return jax.jit(product(jax))(A, B)


def normalized(jax):
    """Rows are normalized; leading dimensions may be cut, and the last one may not."""

    def function(x):
        return x - x.mean(-1, keepdims=True), x.sum(-1)

    def partition(mesh, operands, results):
        return mesh, function, shardings_of(jax, results), shardings_of(jax, operands)

    f = in_parts(
        jax, function, partition, sharding_rule="... i -> ... i, ...",
        need_replication_factors=("i",),
    )  # fmt: skip
    whole, sums = jax.jit(f, in_shardings=(placed(jax, "x", "y"),))(A)
    return whole, sums, str(whole.sharding.spec), str(sums.sharding.spec)


def scaled(jax):
    """An argument that is no array, a rule that is computed, and dimensions of two factors."""

    def partition(factor, mesh, operands, result):
        def part(x):
            return x.reshape(-1) * factor

        return mesh, part, result.sharding, shardings_of(jax, operands)

    f = in_parts(
        jax, lambda factor, x: x.reshape(-1) * factor, partition, static_argnums=(0,),
        sharding_rule=lambda factor, mesh, operands, results: "a b -> (a b)",
    )  # fmt: skip
    result = jax.jit(lambda x: f(3, x), in_shardings=(placed(jax, ("x", "y")),))(A)
    return result, str(result.sharding.spec)


PROGRAMS = [
    product_of_rows,
    product_of_rows_and_columns,
    product_over_both,
    product_on_one_device,
    normalized,
    scaled,
]
