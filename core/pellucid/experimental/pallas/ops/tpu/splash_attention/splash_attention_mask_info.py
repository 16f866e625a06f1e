"""What kernels prefetch of a mask: which blocks of keys a block of queries visits, and which of them need the mask itself.

A block of the mask is empty, and not computed; full, and computed without a mask; or partial. Equal partial blocks are kept once. Visits without a block
name the next one, so that a device fetches nothing twice.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError

from .splash_attention_mask import FormulaMask, Mask, MultiHeadMask

EMPTY, PARTIAL, FULL = 0, 1, 2


class MaskInfo(NamedTuple):
    """Blocks of a mask. `visits` are [heads or 1, blocks of queries, visits], and [heads or 1, visits, blocks of keys] for `dkv`.

    `data_next`: the block of keys that is visited, or of queries for `dkv`; None if all are, in order. `mask_next`: where in `partial_mask_blocks` the mask of a
    visit is. `block_mask`: 0, 1, 2 for an empty, a partial, a full block. `partial_mask_blocks` [blocks, queries, keys]. `q_sequence` [queries]: the positions of
    the queries, for masks that have a formula.
    """

    data_next: Any
    mask_next: Any
    block_mask: Any
    partial_mask_blocks: Any
    q_sequence: Any
    is_dynamic_mask: Any = None


def _blocks_of(
    mask: Mask, block: tuple[int, int]
) -> tuple[np.ndarray, dict[tuple[int, int], np.ndarray]]:
    """(the kind of each block, the partial blocks), from one row of blocks at a time; a mask is empty beyond its edges."""
    (t, s), (bq, bk) = mask.shape, block
    n_rows, n_columns = -(-t // bq), -(-s // bk)
    kinds, partial = np.zeros((n_rows, n_columns), np.int32), {}
    # A block at the edge is full if all that is in the mask is: beyond, the kernel masks keys, and drops queries.
    for i in range(n_rows):
        strip = mask[i * bq : min((i + 1) * bq, t), :]
        for_all, for_any = (np.full((bq, n_columns * bk), fill) for fill in (True, False))
        for_all[: len(strip), :s], for_any[: len(strip), :s] = strip, strip
        is_full, is_some = [
            f(x.reshape(bq, n_columns, bk), axis=(0, 2))
            for f, x in ((np.all, for_all), (np.any, for_any))
        ]
        kinds[i] = np.where(is_full, FULL, np.where(is_some, PARTIAL, EMPTY))
        for j in np.flatnonzero(kinds[i] == PARTIAL):
            partial[i, int(j)] = for_any[:, j * bk : (j + 1) * bk]
    return kinds, partial


def _following(is_there: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` where `is_there` holds; elsewhere that of the next visit where it holds, 0 behind the last such visit.

    Arrays are [heads, shards, own blocks, visits]; each head and shard counts alone.
    """
    result = np.zeros_like(values)
    for part in np.ndindex(values.shape[:2]):
        flat, there = values[part].ravel(), np.flatnonzero(is_there[part])
        places = np.searchsorted(there, np.arange(flat.size))
        has_next = places < len(there)
        found = np.zeros_like(flat)
        found[has_next] = flat[there[places[has_next]]]
        result[part] = found.reshape(values.shape[2:])
    return result


def _narrow(x: np.ndarray, downcast: bool) -> np.ndarray:
    """`x` in int32 or, with `downcast`, in the narrowest integer dtype that holds it."""
    if not downcast:
        return x.astype(np.int32)
    largest = x.max(initial=0)
    return x.astype(next(d for d in (np.int8, np.int16, np.int32) if largest <= np.iinfo(d).max))


def _info(
    mask: Any,
    block_shape: tuple[int, int],
    *,
    is_dkv: bool,
    downcast_smem_data: bool = True,
    head_shards: int = 1,
    q_seq_shards: int = 1,
    shrink_grid: bool = True,
) -> tuple[MaskInfo, FormulaMask | None]:
    mask = mask if isinstance(mask, MultiHeadMask) else MultiHeadMask([mask])
    n_heads, t, _ = mask.shape
    if n_heads % head_shards:
        raise ArgumentValueError("process_mask: `head_shards` must divide the heads.", got=f"{n_heads} heads, {head_shards} shards")  # fmt: skip
    if q_seq_shards > 1 and t % (q_seq_shards * block_shape[0]):
        raise ArgumentValueError(
            "process_mask: shards of queries must be whole blocks.",
            got=f"{t} queries, {q_seq_shards} shards, blocks of {block_shape[0]}",
        )
    shared = len(set(mask.masks)) == 1
    masks = mask.masks[:1] * head_shards if shared else mask.masks
    formula = mask.masks[0] if shared and isinstance(mask.masks[0], FormulaMask) else None
    looked_at = {m: _blocks_of(m, block_shape) for m in dict.fromkeys(masks)}
    kinds = np.stack([looked_at[m][0] for m in masks])
    # Equal partial blocks have one number, in the order in which they are found.
    numbers: dict[bytes, int] = {}
    partial_blocks: list[np.ndarray] = []
    places = np.zeros(kinds.shape, np.int32)
    if formula is None:
        for h, m in enumerate(masks):
            for at, block in looked_at[m][1].items():
                key = block.tobytes()
                if key not in numbers:
                    numbers[key] = len(partial_blocks)
                    partial_blocks.append(block)
                places[(h, *at)] = numbers[key]
    # Axes [heads, shards of queries, own blocks, visits], with the visits last.
    split = lambda x: x.reshape(x.shape[0], q_seq_shards, -1, x.shape[2])
    kinds, places = split(kinds), split(places)
    if is_dkv:
        kinds, places = kinds.swapaxes(2, 3), places.swapaxes(2, 3)
    others = np.broadcast_to(np.arange(kinds.shape[3], dtype=np.int32), kinds.shape)
    if shrink_grid:
        # In each row the visits of blocks that aren't empty come first; the longest row decides how many visits all have.
        order = np.argsort(kinds == EMPTY, axis=3, kind="stable")
        width = max(int((kinds != EMPTY).sum(3).max(initial=0)), 1)
        kinds, places, others = [
            np.take_along_axis(x, order, 3)[..., :width] for x in (kinds, places, others)
        ]
    others, places = _following(kinds != EMPTY, others), _following(kinds == PARTIAL, places)
    if is_dkv:
        kinds, places, others = [x.swapaxes(2, 3) for x in (kinds, places, others)]
    joined = lambda x: _narrow(x.reshape(x.shape[0], -1, x.shape[3]), downcast_smem_data)
    has_partial = bool(partial_blocks)
    return (
        MaskInfo(
            joined(others),
            joined(places) if has_partial else None,
            joined(kinds),
            np.stack(partial_blocks) if has_partial else None,
            None if formula is None else np.arange(t, dtype=np.int32),
        ),
        formula,
    )


def _dynamic_info(
    mask: Any,
    block_shape: tuple[int, int],
    *,
    is_dkv: bool,
    downcast_smem_data: bool = True,
    head_shards: int = 1,
    q_seq_shards: int = 1,
    shrink_grid: bool = True,
) -> tuple[MaskInfo, None]:
    mask = jnp.asarray(mask)
    if mask.ndim != 3 or mask.dtype != np.bool_:
        raise ShapeError("process_dynamic_mask needs booleans [heads, queries, keys].", got=f"shape {mask.shape}, {mask.dtype}")  # fmt: skip
    (h, t, s), (bq, bk) = mask.shape, block_shape
    if h % head_shards or (q_seq_shards > 1 and t % (q_seq_shards * bq)):
        raise ArgumentValueError(
            "process_dynamic_mask: shards must be whole heads and whole blocks of queries.",
            got=f"{h} heads, {t} queries; {head_shards} and {q_seq_shards} shards, blocks of {bq}",
        )
    edges = [(0, 0), (0, -t % bq), (0, -s % bk)]
    split = lambda x: x.reshape(h, x.shape[1] // bq, bq, x.shape[2] // bk, bk).swapaxes(2, 3)
    blocks = split(jnp.pad(mask, edges))
    is_full = split(jnp.pad(mask, edges, constant_values=True)).all(axis=(3, 4))
    kinds = jnp.where(is_full, FULL, jnp.where(blocks.any(axis=(3, 4)), PARTIAL, EMPTY))
    n_rows, n_columns = kinds.shape[1:]
    own_rows = jnp.arange(n_rows, dtype=np.int32) % (n_rows // q_seq_shards)
    others = own_rows[:, None] if is_dkv else jnp.arange(n_columns, dtype=np.int32)[None, :]
    data_next = jnp.broadcast_to(others, kinds.shape)
    return MaskInfo(data_next, None, kinds.astype(np.int32), blocks, None, True), None


process_mask = functools.partial(_info, is_dkv=False)
process_mask_dkv = functools.partial(_info, is_dkv=True)
process_dynamic_mask = functools.partial(_dynamic_info, is_dkv=False)
process_dynamic_mask_dkv = functools.partial(_dynamic_info, is_dkv=True)

__all__ = [
    "MaskInfo", "process_dynamic_mask", "process_dynamic_mask_dkv", "process_mask", "process_mask_dkv",
]  # fmt: skip
