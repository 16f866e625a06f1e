"""MPI: Open MPI by the environment that its `mpirun` makes, any MPI through the package mpi4py."""

from __future__ import annotations

import importlib
import importlib.util
import re
import socket
from typing import Any

from pellucid.base import DistributedError

from .cluster import Cluster, port_for_job

# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1314521088.0;tcp6://[fe80::b9b:ac5d,2620::2]:43370"
_URI = re.compile(r"(?P<job>\d+)\.\d+;(?:tcp://(?P<v4>[^,:]+)|tcp6://\[(?P<v6>[^,\]]+))")
_JOB_ID_STEP = 4096
"""Job ids of Open MPI are multiples of this."""
_NAMESPACE = re.compile(r"\w+-(?P<host>.+)-(?P<pid>\d+)@\d+")
"""Name of a job of Open MPI 5: the host and the process id of its `mpirun`, as "prterun-node7-3053@1"."""


class OpenMpi(Cluster):
    """A process that Open MPI's `mpirun` started. Process 0 must be on the host where that runs, as it is by default."""

    name = "ompi"

    def is_present(self):
        environment = self._environment
        is_version_5 = "PMIX_NAMESPACE" in environment and "OMPI_COMM_WORLD_SIZE" in environment
        return is_version_5 or "OMPI_MCA_orte_hnp_uri" in environment

    def coordinator(self, seconds):
        uri = self._environment.get("OMPI_MCA_orte_hnp_uri")
        if uri is None:
            return self._coordinator_of_version_5()
        address = _URI.match(uri)
        if address is None:
            raise DistributedError(
                "distributed.initialize: OMPI_MCA_orte_hnp_uri names no address.", got=repr(uri)
            )
        job = int(address["job"]) // _JOB_ID_STEP
        return address["v4"] or address["v6"], port_for_job(job)

    def _coordinator_of_version_5(self) -> tuple[str, int]:
        namespace = self._environment["PMIX_NAMESPACE"]
        job = _NAMESPACE.fullmatch(namespace)
        if job is None:
            raise DistributedError(
                "distributed.initialize: PMIX_NAMESPACE names no host.",
                got=repr(namespace),
                do="Pass coordinator_address, as in 'node0:1234'.",
            )
        local = self._environment.get("OMPI_COMM_WORLD_LOCAL_SIZE")
        is_on_one_host = local == self._environment["OMPI_COMM_WORLD_SIZE"]
        return "127.0.0.1" if is_on_one_host else job["host"], port_for_job(int(job["pid"]))

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
