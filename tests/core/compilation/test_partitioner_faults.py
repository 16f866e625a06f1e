"""Programs that XLA's partitioner computes wrongly, or ends the process over, are right over several devices."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

RNG = np.random.default_rng(0)


def mesh(*sizes):
    names = ("a", "b")[: len(sizes)]
    return pl.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def over_devices(function, mesh, specs, *operands):
    placed = tuple(NamedSharding(mesh, spec) for spec in specs)
    return np.asarray(pl.jit(function, in_shardings=placed)(*operands))


@pytest.mark.parametrize(
    ("sizes", "lhs", "rhs"),
    [
        ((2, 2), P("b"), P("b", "a")),
        ((2, 4), P("a"), P(None, "a")),
        ((2, 4), P("a"), P(None, "b")),
        ((2, 4), P("a"), P("a", "b")),
    ],
    ids=str,
)
def test_a_convolution_whose_positions_are_cut(sizes, lhs, rhs) -> None:
    x = RNG.normal(size=(6, 3, 5, 2)).astype(np.float32)
    w = RNG.normal(size=(2, 4, 3, 3)).astype(np.float32)

    def convolved(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("HCWN", "WOIH", "CWNH")
        )

    expected = np.asarray(pl.jit(convolved)(x, w))
    actual = over_devices(convolved, mesh(*sizes), (lhs, rhs), x, w)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [8, 24, 64])
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_a_transform_along_a_dimension_that_all_devices_cut(kind, size) -> None:
    x = RNG.normal(size=(2, 3, size)).astype(np.float32)
    x = x if kind == "RFFT" else x.astype(np.complex64)
    n = 2 * (size - 1) if kind == "IRFFT" else size
    found = over_devices(lambda x: lax.fft(x, kind, (n,)), mesh(8), (P(None, None, "a"),), x)
    np.testing.assert_allclose(found, np.asarray(lax.fft(x, kind, (n,))), rtol=1e-4, atol=1e-4)


def in_loop(x):
    return lax.scan(lambda x, _: (lax.erf(x), None), x, None, length=3)[0]


@pytest.mark.parametrize("function", [lax.erf, in_loop, pl.vmap(lax.erf)], ids=["", "loop", "vmap"])
@pytest.mark.parametrize("spec", [P("a"), P("a", "b"), P(None, ("a", "b"))], ids=str)
def test_an_error_function_gathers_nothing(function, spec) -> None:
    x = RNG.normal(size=(8, 16)).astype(np.float32)
    sharding = NamedSharding(mesh(2, 4), spec)
    compiled = pl.jit(function, in_shardings=sharding).lower(x).compile()
    assert "all-gather" not in compiled.as_text()
    found = compiled(x)
    assert found.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_array_equal(found, np.asarray(function(x)))


@pytest.mark.parametrize("strides", [(1, 1), (2, 1)], ids=str)
@pytest.mark.parametrize("spec", [P("a", None, "b"), P(None, None, "b", "a"), P(None, "a", "b")])
def test_gradients_of_a_convolution_whose_positions_are_cut(spec, strides) -> None:
    x = RNG.normal(size=(2, 2, 16, 16)).astype(np.float32)
    w = RNG.normal(size=(6, 2, 4, 4)).astype(np.float32)

    def loss(x, w):
        return jnp.sin(lax.conv(x, w, strides, "SAME")).sum()

    gradient = pl.jit(pl.value_and_grad(loss, (0, 1)))
    placed = pl.device_put(x, NamedSharding(mesh(2, 4), spec))
    for actual, expected in zip(
        pl.tree.leaves(gradient(placed, w)), pl.tree.leaves(gradient(x, w)), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-3)


def test_devices_exchange_edges_for_a_convolution_in_even_parts_with_a_whole_kernel() -> None:
    x = RNG.normal(size=(2, 3, 16, 8)).astype(np.float32)
    w = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
    convolved = pl.jit(lambda x, w: lax.conv(x, w, (1, 1), "SAME"))
    placed = pl.device_put(x, NamedSharding(mesh(2, 4), P("a", None, "b")))
    text = convolved.lower(placed, w).compile().as_text()
    assert "collective-permute(" in text
    assert "all-gather(" not in text
    np.testing.assert_allclose(convolved(placed, w), convolved(x, w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", [P("a"), P("b"), P("b", None, "a"), P(("a", "b"))], ids=str)
def test_gradients_of_a_convolution_in_groups_whose_examples_are_cut(spec) -> None:
    x = RNG.normal(size=(8, 4, 8, 8)).astype(np.float32)
    w = RNG.normal(size=(4, 1, 3, 3)).astype(np.float32)

    def loss(w, x):
        result = lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=4)
        return jnp.sin(result).sum()

    gradient = pl.jit(pl.grad(loss))
    placed = pl.device_put(x, NamedSharding(mesh(2, 4), spec))
    np.testing.assert_allclose(gradient(w, placed), gradient(w, x), rtol=1e-4, atol=1e-3)


def test_a_convolution_with_negative_padding() -> None:
    x = RNG.normal(size=(4, 2, 12)).astype(np.float32)
    w = RNG.normal(size=(4, 2, 3)).astype(np.float32)

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, (1,), [(-2, 1)], lhs_dilation=(2,))

    expected = np.asarray(pl.jit(convolved)(x, w))
    for spec in (P("a"), P(None, None, "a")):
        actual = over_devices(convolved, mesh(4), (spec, P("a")), x, w)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min])
def test_extremes_keep_nan(reduce) -> None:
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    x[5, 1] = np.nan
    actual = over_devices(lambda x: reduce(x, axis=0), mesh(8), (P("a"),), x)
    np.testing.assert_array_equal(actual, np.asarray(reduce(x, axis=0)))
    assert np.isnan(actual[1])
    assert not np.isnan(actual[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3b11fnuz", "float4_e2m1fn"])
@pytest.mark.parametrize(("along_axis", "reduce"), [(lax.pmax, np.max), (lax.pmin, np.min)])
def test_extremes_along_mesh_axes_keep_nan(along_axis, reduce, dtype) -> None:
    x = np.array([[-3, 3, -1, 0, 1, -0.0, 2, 4]], np.float32).T * [1, -1]
    if dtype != "float4_e2m1fn":  # which has neither NaN nor infinities
        x[5, 1], x[0, 0] = np.nan, -np.inf
    x = x.astype(jnp.dtype(dtype))
    mapped = pl.shard_map(
        lambda x: along_axis(x, "a"), mesh=mesh(8), in_specs=P("a"), out_specs=P()
    )
    np.testing.assert_array_equal(
        np.asarray(mapped(x))[0].astype(np.float32), reduce(x.astype(np.float32), 0)
    )


@pytest.mark.parametrize("index", [2, 9, -20])
def test_one_element_of_a_slice_is_written_only_if_it_is_inside(index) -> None:
    x = np.arange(16, dtype=np.float32)

    def written(x, start, index):
        return lax.dynamic_slice(x, (start,), (4,)).at[index].add(100.0)

    expected = x[4:8] + 100 * (np.arange(4) == index)
    np.testing.assert_array_equal(pl.jit(written)(x, 4, index), expected)


@pytest.mark.parametrize("index", range(5))
def test_one_row_of_uneven_parts_is_written(index) -> None:
    x = np.zeros((5, 2), np.float32)
    placed = NamedSharding(mesh(4), P("a"))

    def written(x, index):
        return lax.with_sharding_constraint(x, placed).at[index].add(1.0)

    expected = np.eye(5, dtype=np.float32)[index]
    np.testing.assert_array_equal(np.asarray(pl.jit(written)(x, index))[:, 0], expected)


def test_addends_stay_addends_where_they_are_stretched() -> None:
    x, y = RNG.normal(size=(2, 8)).astype(np.float32), RNG.normal(size=(8, 1)).astype(np.float32)

    def stretched(x, y):
        addends = jnp.einsum("ij,jk->ik", x, y, out_sharding=P(None, None, unreduced={"a"}))
        return pl.reshard(-jnp.broadcast_to(addends, (5, 2, 3)), P())

    with pl.set_mesh(pl.make_mesh((4,), ("a",))):
        result = over_devices(stretched, pl.sharding.get_mesh(), (P(None, "a"), P("a")), x, y)
    np.testing.assert_allclose(result, np.broadcast_to(-(x @ y), (5, 2, 3)), rtol=1e-5, atol=1e-5)
