"""Chips that kernels are lowered for: what each has of memory, from the makers' tables. A chip is an argument of a lowering, and never read from the machine."""

from __future__ import annotations

from typing import NamedTuple

from pellucid._machine.base import ArgumentValueError

_MIB, _GB = 1 << 20, 10**9


class TpuChip(NamedTuple):
    """A TensorCore and its memories, in bytes; `topology` is a small one of such chips, for compilers without devices."""

    name: str
    device_kind: str
    vmem: int
    smem: int
    hbm: int
    hbm_bandwidth: int
    """Bytes a second."""
    topology: str


TPU_CHIPS = {
    chip.name: chip
    for chip in (
        TpuChip("v4", "TPU v4", 16 * _MIB, _MIB, 34 * _GB, 1230 * _GB, "v4:2x2x1"),
        TpuChip("v5e", "TPU v5 lite", 128 * _MIB, _MIB, 17 * _GB, 820 * _GB, "v5e:2x2"),
        TpuChip("v5p", "TPU v5", 64 * _MIB, _MIB, 103 * _GB, 2765 * _GB, "v5p:2x2x1"),
        TpuChip("v6e", "TPU v6 lite", 128 * _MIB, _MIB, 34 * _GB, 1640 * _GB, "v6e:2x2"),
        TpuChip("tpu7x", "TPU7x", 64 * _MIB, _MIB, 103 * _GB, 3690 * _GB, "tpu7x:2x2x1"),
    )
}
"""TPUs by their short names."""
LARGEST_VMEM = max(chip.vmem for chip in TPU_CHIPS.values())


def tpu_chip(name: str) -> TpuChip:
    """The TPU of a short name.

    Raises: ArgumentValueError for one that isn't in the table.

    >>> tpu_chip("v5e").vmem >> 20
    128
    """
    if name not in TPU_CHIPS:
        raise ArgumentValueError(
            "there is no such TPU.", got=f"{name!r}", do=f"Known are {', '.join(TPU_CHIPS)}."
        )
    return TPU_CHIPS[name]
