"""How long does a kernel run on a machine without a GPU or TPU?

The reference interprets it. Here it is compiled, as a batch over the axes whose programs write blocks of their own. The rows
"beside jnp" compare with what the reference takes for the same result without a kernel. Blocks that data choose are checked when the
program runs: those of results also for being left and visited again. The rows "without checks" have
`CompilerParams(disable_bounds_checks=True)`, so that their distance from the row before is the cost of the checks.
"""

from __future__ import annotations

import functools
import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from versus import Target, compare, per_call

ADD, MATMUL, ATTENTION = (
    "add, 256 programs of 8 x 128",
    "matmul, 1,024^3 in 128^3",
    "attention, 4 x 1,024 x 64",
)
GATHER, SCATTER = "256 blocks that data choose, read", "256 blocks that data choose, written"
FIRST = "first call"
TARGETS = {
    ADD: Target(0.1),
    MATMUL: Target(0.2, "ms"),
    ATTENTION: Target(0.3, "ms"),
    f"{ADD}, beside jnp": Target(3.0),
    f"{MATMUL}, beside jnp": Target(3.0, "ms"),
    f"{ATTENTION}, beside jnp": Target(3.0, "ms"),
    **{
        f"{name}{how}": Target(0.1)
        for name in (GATHER, SCATTER)
        for how in ("", ", without checks")
    },
    **{
        f"{name}{how}, {FIRST}": Target(3.0, "ms")
        for name in (GATHER, SCATTER)
        for how in ("", ", without checks")
    },
}


def add(library: Any) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """(a kernel, the same in jnp, operands): a sum of matrices by rows of blocks."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    x = library.numpy.asarray(np.random.default_rng(0).standard_normal((2048, 128), np.float32))
    rows = pallas.BlockSpec((8, 128), lambda i: (i, 0))
    out = library.ShapeDtypeStruct(x.shape, x.dtype)
    call = pallas.pallas_call(
        kernel, out, grid=256, in_specs=[rows, rows], out_specs=rows, interpret=True
    )
    return call, lambda x, y: x + y, [x, x]


def matmul(library: Any) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """The same for a product of matrices, which sums in the block of the result."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")
    jnp = library.numpy

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pallas.when(pallas.program_id(2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...])

    x = jnp.asarray(np.random.default_rng(0).standard_normal((1024, 1024), np.float32))
    block = lambda index: pallas.BlockSpec((128, 128), index)
    call = pallas.pallas_call(
        kernel,
        library.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(8, 8, 8),
        in_specs=[block(lambda i, j, k: (i, k)), block(lambda i, j, k: (k, j))],
        out_specs=block(lambda i, j, k: (i, j)),
        interpret=True,
    )
    return call, jnp.dot, [x, x]


def attention(library: Any) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """The same for attention that keeps a running maximum and sum in scratch."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")
    tpu = importlib.import_module(f"{library.__name__}.experimental.pallas.tpu")
    jnp, n_heads, length, size, block = library.numpy, 4, 1024, 64, 128
    scale = 1 / math.sqrt(size)

    def kernel(
        q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, m_ref: Any, l_ref: Any, sum_ref: Any
    ) -> None:
        step = pallas.program_id(2)

        @pallas.when(step == 0)
        def _() -> None:
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            sum_ref[...] = jnp.zeros_like(sum_ref)

        logits = jnp.dot(q_ref[...], k_ref[...].T) * scale
        before, now = m_ref[...], jnp.maximum(m_ref[...], logits.max(-1, keepdims=True))
        weights, decay = jnp.exp(logits - now), jnp.exp(before - now)
        m_ref[...] = now
        l_ref[...] = decay * l_ref[...] + weights.sum(-1, keepdims=True)
        sum_ref[...] = decay * sum_ref[...] + jnp.dot(weights, v_ref[...])

        @pallas.when(step == pallas.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = sum_ref[...] / l_ref[...]

    rng = np.random.default_rng(0)
    operands = [
        jnp.asarray(rng.standard_normal((n_heads, length, size), np.float32)) for _ in range(3)
    ]
    queries = pallas.BlockSpec((None, block, size), lambda h, i, j: (h, i, 0))
    keys = pallas.BlockSpec((None, block, size), lambda h, i, j: (h, j, 0))
    call = pallas.pallas_call(
        kernel,
        library.ShapeDtypeStruct(operands[0].shape, np.float32),
        grid=(n_heads, length // block, length // block),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=[tpu.VMEM((block, n), np.float32) for n in (1, 1, size)],
        interpret=True,
    )

    def plain(q: Any, k: Any, v: Any) -> Any:
        weights = library.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) * scale)
        return jnp.einsum("hqk,hkd->hqd", weights, v)

    return call, plain, operands


def choice(
    library: Any, *, is_written: bool, is_checked: bool
) -> tuple[Callable[..., Any], list[Any]]:
    """(a kernel that doubles blocks in another order, which is prefetched, operands)."""
    pallas = importlib.import_module(f"{library.__name__}.experimental.pallas")
    tpu = importlib.import_module(f"{library.__name__}.experimental.pallas.tpu")

    def kernel(order_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    rng = np.random.default_rng(0)
    x = library.numpy.asarray(rng.standard_normal((2048, 128), np.float32))
    order = library.numpy.asarray(rng.permutation(256).astype(np.int32))
    chosen = pallas.BlockSpec((8, 128), lambda i, order: (order[i], 0))
    own = pallas.BlockSpec((8, 128), lambda i, order: (i, 0))
    blocks = (own, chosen) if is_written else (chosen, own)
    call = pallas.pallas_call(
        kernel,
        library.ShapeDtypeStruct(x.shape, x.dtype),
        grid_spec=tpu.PrefetchScalarGridSpec(1, (256,), [blocks[0]], blocks[1]),
        compiler_params=tpu.CompilerParams(disable_bounds_checks=not is_checked),
        interpret=True,
    )
    return call, [order, x]


def first_call(case: Callable[[], tuple[Callable[..., Any], list[Any]]], library: Any) -> float:
    """Seconds of the first call of a kernel that no one has compiled before."""
    library.clear_caches()
    kernel, operands = case()
    begun = time.perf_counter()
    library.block_until_ready(library.jit(kernel)(*operands))
    return time.perf_counter() - begun


def measurements(library: Any) -> dict[str, Callable[[], float]]:
    """Seconds of one jitted call of each kernel; beside jnp, the reference's of the plain function."""
    found: dict[str, Callable[[], float]] = {}

    def seconds(function: Callable[..., Any], operands: list[Any]) -> Callable[[], float]:
        jitted = library.jit(function)
        return lambda: per_call(lambda: library.block_until_ready(jitted(*operands)))

    for name, case in ((ADD, add), (MATMUL, matmul), (ATTENTION, attention)):
        kernel, plain, operands = case(library)

        found[name] = seconds(kernel, operands)
        reference = plain if library.__name__ == "jax" else kernel
        found[f"{name}, beside jnp"] = seconds(reference, operands)
    for name, is_written in ((GATHER, False), (SCATTER, True)):
        for how, is_checked in (("", True), (", without checks", False)):
            case = functools.partial(choice, library, is_written=is_written, is_checked=is_checked)
            found[f"{name}{how}"] = seconds(*case())
            found[f"{name}{how}, {FIRST}"] = functools.partial(first_call, case, library)
    return found


if __name__ == "__main__":
    compare(__file__, TARGETS)
