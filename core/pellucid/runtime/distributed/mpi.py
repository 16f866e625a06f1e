"""MPI: Open MPI by the environment that its `mpirun` makes, any MPI through the package mpi4py."""

from __future__ import annotations

import importlib
import importlib.util
import re
import socket
from typing import Any

from pellucid.base.errors import DistributedError
from pellucid.runtime.distributed.cluster import Cluster, port_for_job

# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1314521088.0;tcp6://[fe80::b9b:ac5d,2620::2]:43370"
_URI = re.compile(r"(?P<job>\d+)\.\d+;(?:tcp://(?P<v4>[^,:]+)|tcp6://\[(?P<v6>[^,\]]+))")
_JOB_ID_STEP = 4096
"""Job ids of Open MPI are multiples of this."""


class OpenMpi(Cluster):
    """A process that Open MPI's `mpirun` started."""

    name = "ompi"

    def is_present(self):
        return "OMPI_MCA_orte_hnp_uri" in self._environment

    def coordinator(self, seconds):
        uri = self._environment["OMPI_MCA_orte_hnp_uri"]
        address = _URI.match(uri)
        if address is None:
            raise DistributedError(
                "distributed.initialize: OMPI_MCA_orte_hnp_uri names no address.", got=repr(uri)
            )
        job = int(address["job"]) // _JOB_ID_STEP
        return address["v4"] or address["v6"], port_for_job(job)

    def num_processes(self):
        return self._number("OMPI_COMM_WORLD_SIZE")

    def process_id(self):
        return self._number("OMPI_COMM_WORLD_RANK")

    def local_process_id(self):
        return self._number("OMPI_COMM_WORLD_LOCAL_RANK")


class Mpi4py(Cluster):
    """A process of any MPI for which mpi4py is installed; asked only by name, since it initializes MPI."""

    name = "mpi4py"
    is_asked_unnamed = False

    def __init__(self, mpi: Any = None) -> None:
        self._given = mpi

    @property
    def _mpi(self):
        return self._given or importlib.import_module("mpi4py.MPI")  # an optional package

    def is_present(self):
        return self._given is not None or importlib.util.find_spec("mpi4py") is not None

    def coordinator(self, seconds):
        world = self._mpi.COMM_WORLD
        address = None
        if world.Get_rank() == 0:
            with socket.socket() as probe:
                probe.bind(("", 0))
                address = (socket.gethostname(), probe.getsockname()[1])
        return world.bcast(address, root=0)

    def num_processes(self):
        return int(self._mpi.COMM_WORLD.Get_size())

    def process_id(self):
        return int(self._mpi.COMM_WORLD.Get_rank())

    def local_process_id(self):
        on_this_machine = self._mpi.COMM_WORLD.Split_type(self._mpi.COMM_TYPE_SHARED)
        return int(on_this_machine.Get_rank())
