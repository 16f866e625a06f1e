"""Jobs that Slurm starts."""

from __future__ import annotations

import os
import re

from pellucid._machine.base import DistributedError

from .cluster import Launched, port_for_job

_FIRST_NODE = re.compile(
    r"(?P<prefix>[^,\[\]]+)(?:\[(?P<number>\d+)[^\]]*\])?(?P<suffix>[^,\[\]]*)"
)


class Slurm(Launched):
    """A job step of Slurm."""

    name = "slurm"
    variables = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")

    def is_present(self):
        needed = {"SLURM_JOB_ID", "SLURM_STEP_NODELIST", *self.variables}
        return needed <= {*os.environ}

    def coordinator(self, seconds):
        nodes = os.environ["SLURM_STEP_NODELIST"]
        node = _FIRST_NODE.match(nodes)
        if node is None:
            raise DistributedError(
                "distributed.initialize: SLURM_STEP_NODELIST names no node.", got=repr(nodes)
            )
        host = node["prefix"] + (node["number"] or "") + node["suffix"]
        return host, port_for_job(self._number("SLURM_JOB_ID"))
