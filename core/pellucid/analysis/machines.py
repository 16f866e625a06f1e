"""Speeds of the device kinds for which times are estimated.

Figures are those of NVIDIA's data sheets for the SXM models: dense arithmetic without sparsity, links in one direction.
"""

from __future__ import annotations

from typing import NamedTuple

from pellucid._machine.base import ArgumentValueError
from pellucid._machine.xla.gpu_targets import GPU_TARGETS

_TERA, _GB = 10**12, 10**9


class Machine(NamedTuple):
    """Speeds of one device and of its links to others.

    >>> MACHINES["H100"].link_bytes_per_second(8), MACHINES["H100"].link_bytes_per_second(64)
    (450000000000, 50000000000)
    """

    kind: str
    flops_per_second: int
    """Arithmetic throughput with 32-bit elements."""
    half_flops_per_second: int
    """Throughput of contractions with elements of at most 16 bits."""
    memory_bytes_per_second: int
    memory_bytes: int
    node_link_bytes_per_second: int
    """Bandwidth from one device to others of its node, in one direction."""
    network_bytes_per_second: int
    """Bandwidth from one device to other nodes, in one direction."""
    devices_per_node: int = 8

    def link_bytes_per_second(self, span: int) -> int:
        """Bandwidth of one device in a collective among `span` neighbouring devices."""
        return (
            self.node_link_bytes_per_second
            if span <= self.devices_per_node
            else self.network_bytes_per_second
        )


def _gpu(
    kind: str, tera_flops: float, half_tera_flops: float, link_gb: int, network_gb: int
) -> Machine:
    target = GPU_TARGETS[kind]
    return Machine(
        kind, int(tera_flops * _TERA), int(half_tera_flops * _TERA), target.memory_bandwidth,
        target.memory_size, link_gb * _GB, network_gb * _GB,
    )  # fmt: skip


MACHINES = {
    "A100": _gpu("A100", 19.5, 312, 300, 25),
    "H100": _gpu("H100", 67, 989, 450, 50),
    "H200": _gpu("H200", 67, 989, 450, 50),
}
"""Machines by device kind."""


def machine_of(kind: str | Machine) -> Machine:
    """The machine of this name.

    Raises: ArgumentValueError for a kind that isn't in the table.
    """
    if isinstance(kind, Machine):
        return kind
    if kind not in MACHINES:
        raise ArgumentValueError(
            "what_if: the speed of this kind of device is not known.",
            got=f"device={kind!r}",
            do=f"Known kinds are {', '.join(MACHINES)}; pass a Machine with the speeds of another.",
        )
    return MACHINES[kind]
