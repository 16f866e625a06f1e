"""Slurm: `srun` tells each task its number and the nodes of the step."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pellucid.base.errors import DistributedError
from pellucid.runtime.distributed.cluster import Cluster, port_for_job

_NEEDED = (
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
)
_FIRST_NODE = re.compile(
    r"(?P<prefix>[^,\[\]]+)(?:\[(?P<number>\d+)[^\]]*\])?(?P<suffix>[^,\[\]]*)"
)


class Slurm(Cluster):
    """A job step of Slurm."""

    name = "slurm"

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment

    def is_present(self) -> bool:
        return all(name in self._environment for name in _NEEDED)

    def coordinator(self, seconds: float) -> tuple[str, int]:
        nodes = self._environment["SLURM_STEP_NODELIST"]
        found = _FIRST_NODE.match(nodes)
        if found is None:
            raise DistributedError(
                "distributed.initialize: SLURM_STEP_NODELIST names no node.", got=repr(nodes)
            )
        first = found["prefix"] + (found["number"] or "") + found["suffix"]
        return first, port_for_job(self._number("SLURM_JOB_ID"))

    def num_processes(self) -> int:
        return self._number("SLURM_NTASKS")

    def process_id(self) -> int:
        return self._number("SLURM_PROCID")

    def local_process_id(self) -> int | None:
        return self._number("SLURM_LOCALID")

    def _number(self, name: str) -> int:
        return self.number(name, self._environment.get(name))
