"""`vmap` of `shard_map` gives what `shard_map` gives of each element: random meshes, specs and placements of the batch."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid import P, lax, numpy as jnp
from pellucid.sharding import AxisType, NamedSharding

SHAPES = [(2,), (4,), (8,), (2, 2), (4, 2), (2, 4), (2, 2, 2), (1, 4)]
SEEDS = 40


@dataclass
class Operand:
    """An array, with a batch along `batch_axis` (None: without), placed as `placement`; `spec` is an element's."""

    array: np.ndarray
    batch_axis: int | None
    spec: list[tuple[str, ...]]
    placement: list[tuple[str, ...]]

    def element(self, i: int) -> tuple[np.ndarray, list[tuple[str, ...]]]:
        """Element `i` of the batch and its placement."""
        if self.batch_axis is None:
            return self.array, self.placement
        axes = self.placement[: self.batch_axis] + self.placement[self.batch_axis + 1 :]
        return np.take(self.array, i, self.batch_axis), axes


class Case:
    """A function over some axes of a mesh, and operands for a batch of calls."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        shape = rng.choice(SHAPES)
        names = tuple("xyz"[: len(shape)])
        kinds = rng.choice([[AxisType.Auto], [AxisType.Explicit], list(AxisType)[:2]])
        self.mesh = pl.make_mesh(shape, names, axis_types=tuple(rng.choice(kinds) for _ in names))
        self.manual = [n for n in names if rng.random() < 0.8] or [names[0]]
        self.batch_size = rng.choice([1, 2, 3, 4, 8])
        self.out_axis = rng.choice([0, 1])
        self.operands = [self.operand(is_first=i == 0) for i in range(rng.choice([1, 1, 2]))]

    def operand(self, *, is_first: bool) -> Operand:
        rng, sizes = self.rng, self.mesh.shape
        ndim = rng.choice([1, 2])
        dims = [
            rng.randrange(ndim + 1) for _ in self.manual
        ]  # the last: no dimension is cut by the axis
        spec = [
            tuple(a for a, d in zip(self.manual, dims, strict=True) if d == i) for i in range(ndim)
        ]
        shape = [rng.choice([1, 2, 3]) * math.prod(sizes[a] for a in axes) for axes in spec]
        x = np.random.RandomState(rng.randrange(1000)).randn(*shape).astype(np.float32)
        placement: list[tuple[str, ...]] = [*spec]
        batch_axis = rng.choice([*range(ndim + 1)] if is_first else [None, *range(ndim + 1)])
        if batch_axis is not None:
            x = np.stack([x * (i + 1) for i in range(self.batch_size)], batch_axis)
            used = {a for axes in spec for a in axes}
            free = [a for a in sizes if a not in used and self.batch_size % sizes[a] == 0]
            placement.insert(batch_axis, (rng.choice(free),) if free and rng.random() < 0.6 else ())
        return Operand(x, batch_axis, spec, placement)

    def mapped(self) -> Any:
        """The function; its result has one dimension, along which the parts of its positions are joined."""
        rng = self.rng
        used = {a for operand in self.operands for axes in operand.spec for a in axes}
        numbered = [a for a in self.manual if rng.random() < 0.3]
        varying = [a for a in self.manual if a in used or a in numbered]
        summed = tuple(a for a in varying if rng.random() < 0.4)

        def f(*parts: Any) -> Any:
            y = sum(jnp.sin(x).sum() for x in parts) + parts[0].ravel()[:1]
            for axis in numbered:
                y = y + lax.axis_index(axis)
            return lax.psum(y, summed) if summed else y

        return pl.shard_map(
            f, mesh=self.mesh, axis_names=set(self.manual),
            in_specs=tuple(P(*operand.spec) for operand in self.operands),
            out_specs=P(tuple(a for a in varying if a not in summed)),
        )  # fmt: skip

    def put(self, array: np.ndarray, axes: list[tuple[str, ...]]) -> Any:
        return pl.device_put(array, NamedSharding(self.mesh, P(*axes)))


def assert_is_element(batch: Any, i: int, axis: Any, element: Any) -> None:
    np.testing.assert_allclose(np.take(np.asarray(batch), i, axis), element, rtol=1e-3, atol=1e-3)


def random_seeds() -> list[Any]:
    return [
        pytest.param(seed, marks=() if seed < 2 else (pytest.mark.rotates,))
        for seed in range(SEEDS)
    ]


@pytest.mark.parametrize("seed", random_seeds())
def test_each_element_has_the_result_it_has_alone(seed: int) -> None:
    case = Case(seed)
    f = case.mapped()
    with pl.set_mesh(case.mesh):
        xs = [case.put(operand.array, operand.placement) for operand in case.operands]
        in_axes = tuple(operand.batch_axis for operand in case.operands)
        batched = pl.vmap(f, in_axes=in_axes, out_axes=case.out_axis)
        eager, compiled = batched(*xs), pl.jit(batched)(*xs)
        gradient = pl.jit(pl.grad(lambda *xs: (batched(*xs) ** 2).sum()))(*xs)
        for i in {0, case.batch_size - 1}:
            elements = [case.put(*operand.element(i)) for operand in case.operands]
            for y in (eager, compiled):
                assert_is_element(y, i, case.out_axis, f(*elements))
            alone = pl.grad(lambda *xs: (f(*xs) ** 2).sum())(*elements)
            assert_is_element(gradient, i, in_axes[0], alone)
