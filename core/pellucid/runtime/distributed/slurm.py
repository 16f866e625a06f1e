"""Slurm: `srun` gives each task its number and the nodes of the step."""

from __future__ import annotations

import re

from pellucid.base import DistributedError

from .cluster import Cluster, port_for_job

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

    def is_present(self):
        return all(name in self._environment for name in _NEEDED)

    def coordinator(self, seconds):
        nodes = self._environment["SLURM_STEP_NODELIST"]
        node = _FIRST_NODE.match(nodes)
        if node is None:
            raise DistributedError(
                "distributed.initialize: SLURM_STEP_NODELIST names no node.", got=repr(nodes)
            )
        host = node["prefix"] + (node["number"] or "") + node["suffix"]
        return host, port_for_job(self._number("SLURM_JOB_ID"))

    def num_processes(self):
        return self._number("SLURM_NTASKS")

    def process_id(self):
        return self._number("SLURM_PROCID")

    def local_process_id(self):
        return self._number("SLURM_LOCALID")
