"""`vmap` is a loop: for each operand, along each axis, and for several at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from rotation import runs_whole

from pellucid._machine.base import config
from pellucid._machine.ir.rules import BatchAxis
from pellucid._machine.transforms.vmap import batch_flat
from tests.laws.compare import assert_close
from tests.laws.sample import Operand, Sample, batched_samples

SIZE = 2

Batch = tuple[tuple[int | None, ...], list[Any]]
"""The batch axis of each operand, and the operands with it."""


def batches(sample: Sample) -> list[Batch]:
    """All operands along their first axes; in a run that takes all of the row each alone along each axis, too, and all
    along different axes."""
    made = [
        np.asarray(x).ndim if not o.python else None
        for o, x in zip(sample.operands, sample.arguments, strict=True)
    ]
    able = [i for i, ndim in enumerate(made) if ndim is not None]
    dims = [dict.fromkeys(able, 0)]
    if runs_whole(str(sample)):
        dims += [{i: d} for i in able for d in range(made[i] + 1)]
        dims.append({i: (made[i] - k) % (made[i] + 1) for k, i in enumerate(able)})
    different = {tuple(d.get(i) for i in range(len(made))) for d in dims if d}
    return [(d, batched_operands(sample, d)) for d in sorted(different, key=repr)]


def batched_operands(sample: Sample, dims: Sequence[int | None]) -> list[Any]:
    """Operands with a batch axis at `dims`; each element of the batch is drawn anew."""
    one = sample.arguments
    more = sample.made([redrawn(o) for o in reversed(sample.operands)])[::-1]
    return [
        a if d is None else np.stack([np.asarray(a), np.asarray(b)], axis=d)
        for a, b, d in zip(one, more, dims, strict=True)
    ]


def redrawn(operand: Operand) -> Operand:
    """An operand with other elements of the same kind: given values are reversed."""
    if operand.values is None:
        return operand
    return Operand(
        operand.shape, operand.dtype, values=np.ravel(operand.values)[::-1].reshape(operand.shape)
    )


def task(sample: Sample):
    """All batches of a row in one function; results have their batch axis in front, or are repeated along it."""
    cases = batches(sample)

    def function(*leaves: Any) -> list[Any]:
        given = iter(leaves)
        found = []
        for dims, operands in cases:
            results, out_dims = batch_flat(
                sample.function, BatchAxis(SIZE), [next(given) for _ in operands], dims
            )
            assert len(results) == len(out_dims)
            out_dims_of[sample, dims] = out_dims
            found += results
        return found

    return function, [x for _, operands in cases for x in operands]


out_dims_of: dict[Any, list[int | None]] = {}


@pytest.mark.parametrize("sample", batched_samples(), ids=str)
def test_batching_is_a_loop(sample: Sample, together) -> None:
    results = iter(together(task, lambda s: s.needs_x64))
    with config.enable_x64(sample.needs_x64):
        for dims, operands in batches(sample):
            elements = [
                sample.function(
                    *(
                        x if d is None else np.take(x, i, d)
                        for x, d in zip(operands, dims, strict=True)
                    )
                )
                for i in range(SIZE)
            ]
            for i, out_dim in enumerate(out_dims_of[sample, dims]):
                got = np.asarray(next(results))
                got = np.stack([got] * SIZE) if out_dim is None else np.moveaxis(got, out_dim, 0)
                assert got.dtype == elements[0][i].dtype
                expected = np.stack([np.asarray(e[i]) for e in elements])
                assert_close(got, expected, sample.tolerance, f"batch axes {dims}, result {i}")
