"""MPI: Open MPI by the environment that its `mpirun` makes, any MPI through the package mpi4py."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from pellucid.base.errors import DistributedError
from pellucid.runtime.distributed.cluster import Cluster, port_for_job

# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1314521088.0;tcp6://[fe80::b9b:ac5d,2620::2]:43370"
_URI = re.compile(r"(?P<job>\d+)\.\d+;(?:tcp://(?P<v4>[^,:]+)|tcp6://\[(?P<v6>[^,\]]+))")
_JOB_IDS_ARE_MULTIPLES_OF = 4096


class OpenMpi(Cluster):
    """A process that Open MPI's `mpirun` started."""

    name = "ompi"

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment

    def is_present(self) -> bool:
        return "OMPI_MCA_orte_hnp_uri" in self._environment

    def coordinator(self, seconds: float) -> tuple[str, int]:
        uri = self._environment["OMPI_MCA_orte_hnp_uri"]
        found = _URI.match(uri)
        if found is None:
            raise DistributedError(
                "distributed.initialize: OMPI_MCA_orte_hnp_uri names no address.", got=repr(uri)
            )
        job = int(found["job"]) // _JOB_IDS_ARE_MULTIPLES_OF
        return found["v4"] or found["v6"], port_for_job(job)

    def num_processes(self) -> int:
        return self._number("OMPI_COMM_WORLD_SIZE")

    def process_id(self) -> int:
        return self._number("OMPI_COMM_WORLD_RANK")

    def local_process_id(self) -> int | None:
        return self._number("OMPI_COMM_WORLD_LOCAL_RANK")

    def _number(self, name: str) -> int:
        return self.number(name, self._environment.get(name))


class Mpi4py(Cluster):
    """A process of any MPI for which mpi4py is installed; asked only by name, since it initializes MPI."""

    name = "mpi4py"
    is_asked_unnamed = False

    def __init__(self, mpi: Any = None) -> None:
        self._given = mpi

    @property
    def _mpi(self) -> Any:
        return self._given or importlib.import_module("mpi4py.MPI")  # an optional package

    def is_present(self) -> bool:
        return self._given is not None or importlib.util.find_spec("mpi4py") is not None

    def coordinator(self, seconds: float) -> tuple[str, int]:
        world = self._mpi.COMM_WORLD
        address = None
        if world.Get_rank() == 0:
            with socket.socket() as probe:
                probe.bind(("", 0))
                address = (socket.gethostname(), probe.getsockname()[1])
        return world.bcast(address, root=0)

    def num_processes(self) -> int:
        return int(self._mpi.COMM_WORLD.Get_size())

    def process_id(self) -> int:
        return int(self._mpi.COMM_WORLD.Get_rank())

    def local_process_id(self) -> int | None:
        on_this_machine = self._mpi.COMM_WORLD.Split_type(self._mpi.COMM_TYPE_SHARED)
        return int(on_this_machine.Get_rank())
