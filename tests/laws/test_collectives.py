"""Laws of collectives: the same under vmap and over devices, derivatives, adjoints, and the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus.collectives import ROWS, UNKNOWN, UNKNOWN_COTANGENTS, WAYS, pulled_back, run, values

import pellucid as pl
from pellucid import lax

SMOOTH = [name for name, (_, _, dtype) in ROWS.items() if dtype == "float32" and "bool" not in name]
NOT_DIFFERENTIATED = ("pmax", "pmin", "psum of complex", "psum of a tree")
"""Rows without derivatives in the reference, or whose results have no cosine there."""


def cases(names: Any, *default: str) -> list[Any]:
    """(way, name) for all ways; those that are not in `default` rotate."""
    return [
        pytest.param(
            way, name, id=f"{way}-{name}", marks=() if way in default else (pytest.mark.rotates,)
        )
        for way in WAYS
        for name in names
    ]


def dot(xs: Any, ys: Any) -> float:
    pairs = zip(pl.tree.leaves(xs), pl.tree.leaves(ys), strict=True)
    return sum(np.vdot(np.conj(np.asarray(x)), np.asarray(y)).real for x, y in pairs)


@pytest.mark.parametrize("name", ROWS)
def test_devices_compute_what_vmap_computes(name: str) -> None:
    expected = run(pl, "vmapped", name)
    for way in ("mapped", "unchecked"):
        found = run(pl, way, name)
        for ours, theirs in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("way", "name"), cases(SMOOTH, "mapped"))
def test_derivative_and_adjoint(way: str, name: str) -> None:
    f, x = WAYS[way](pl, name), values(name)
    t = np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)
    results, tangents = pl.jvp(f, (x,), (t,))
    step = 1e-2
    after, before = f(x + step * t), f(x - step * t)
    for tangent, a, b in zip(*map(pl.tree.leaves, (tangents, after, before)), strict=True):
        np.testing.assert_allclose(tangent, (a - b) / (2 * step), rtol=2e-2, atol=2e-2)
    _, pull = pl.vjp(f, x)
    cotangents = pl.tree.map(pl.numpy.cos, results)
    [pulled] = pull(cotangents)
    np.testing.assert_allclose(dot(pulled, t), dot(cotangents, tangents), rtol=1e-4, atol=1e-4)


@pytest.mark.rotates
@pytest.mark.parametrize("name", SMOOTH)
def test_batches_over_devices(name: str) -> None:
    f, x = WAYS["mapped"](pl, name), values(name)
    batch = np.stack([x, 2 * x, -x], 1)
    found = pl.vmap(f, in_axes=1)(batch)
    for i in range(3):
        expected = f(batch[:, i])
        for ours, theirs in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours[i], theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("way", "name"), cases(ROWS, "vmapped", "mapped"))
def test_agrees_with_the_reference(oracle_8_devices: Any, way: str, name: str) -> None:
    if name in UNKNOWN[way]:
        pytest.skip("the reference has no such collective on the CPU")
    oracle_8_devices.check(run, way, name, library=pl)


@pytest.mark.parametrize(("way", "name"), cases(SMOOTH))
def test_cotangents_agree_with_the_reference(oracle_8_devices: Any, way: str, name: str) -> None:
    if name in (*UNKNOWN[way], *UNKNOWN_COTANGENTS) or name.startswith(NOT_DIFFERENTIATED):
        pytest.skip("the reference has no derivative of it")
    oracle_8_devices.check(pulled_back, way, name, library=pl)


def test_every_collective_has_a_row() -> None:
    text = " ".join(expression for expression, _, _ in ROWS.values())
    names = [n for n in dir(lax) if n.startswith("p") and n in vars(lax) and not n.endswith("_p")]
    collectives = {
        n for n in names if getattr(lax, n).__module__.startswith("pellucid._machine.parallel")
    }
    collectives |= {"all_gather", "all_to_all", "ragged_all_to_all", "axis_index", "axis_size"}
    # No CPU sends and receives apart: tests/core/parallel/test_point_to_point.py.
    assert {n for n in collectives if f"lax.{n}(" not in text} == {"pcast", "precv", "psend"}
