"""Jobs that `mpirun` starts: Open MPI, and any MPI through mpi4py."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import secrets
import socket

from pellucid._machine.base import DistributedError

from .cluster import Cluster, Launched, port_for_job

# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1314521088.0;tcp6://[fe80::b9b:ac5d,2620::2]:43370"
_URI = re.compile(r"(?P<job>\d+)\.\d+;(?:tcp://(?P<v4>[^,:]+)|tcp6://\[(?P<v6>[^,\]]+))")
_URI_VARIABLE = "OMPI_MCA_orte_hnp_uri"
_KEY_VARIABLE = "OMPI_MCA_orte_precondition_transports"
"""Variable with a random number that `mpirun` gives to all processes that it starts."""
_JOB_ID_STEP = 4096
"""Job ids of Open MPI are multiples of this."""
_NAMESPACE = re.compile(r"\w+-(?P<host>.+)-(?P<pid>\d+)@(?P<number>\d+)")
"""Name of an Open MPI 5 job, such as "prterun-node7-3053@1": host and process id of its `mpirun`, then its number."""


class OpenMpi(Launched):
    """A process started by Open MPI's `mpirun`. Process 0 must be on the host where that runs, which is the default."""

    name = "ompi"
    variables = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")

    def is_present(self):
        is_version_5 = {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE"} <= {*os.environ}
        return is_version_5 or _URI_VARIABLE in os.environ

    def coordinator(self, seconds):
        uri = os.environ.get(_URI_VARIABLE)
        if uri is None:
            return self._coordinator_of_version_5()
        address = _URI.match(uri)
        if address is None:
            raise DistributedError(
                "distributed.initialize: OMPI_MCA_orte_hnp_uri names no address.", got=repr(uri)
            )
        job = int(address["job"]) // _JOB_ID_STEP
        return address["v4"] or address["v6"], port_for_job(job)

    def secret(self):
        return os.environ.get(_KEY_VARIABLE)

    def _coordinator_of_version_5(self) -> tuple[str, int]:
        namespace = os.environ["PMIX_NAMESPACE"]
        job = _NAMESPACE.fullmatch(namespace)
        if job is None:
            raise DistributedError(
                "distributed.initialize: PMIX_NAMESPACE names no host.",
                got=repr(namespace),
                do="Pass coordinator_address, as in 'node0:1234'.",
            )
        local = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
        is_on_one_host = local == os.environ["OMPI_COMM_WORLD_SIZE"]
        port = port_for_job(int(job["pid"]) * int(job["number"]))
        return "127.0.0.1" if is_on_one_host else job["host"], port


class Mpi4py(Cluster):
    """A process of any MPI for which mpi4py is installed; only used if named, because it initializes MPI."""

    name = "mpi4py"
    is_asked_unnamed = False

    @property
    def _mpi(self):
        return importlib.import_module("mpi4py.MPI")  # optional package

    def is_present(self):
        return importlib.util.find_spec("mpi4py") is not None

    def coordinator(self, seconds):
        world = self._mpi.COMM_WORLD
        address = None
        if world.Get_rank() == 0:
            with socket.socket() as probe:
                probe.bind(("", 0))
                address = (socket.gethostname(), probe.getsockname()[1])
        return world.bcast(address, root=0)

    def secret(self):
        world = self._mpi.COMM_WORLD
        return world.bcast(secrets.token_hex(16) if world.Get_rank() == 0 else None, root=0)

    def num_processes(self):
        return int(self._mpi.COMM_WORLD.Get_size())

    def process_id(self):
        return int(self._mpi.COMM_WORLD.Get_rank())

    def local_process_id(self):
        on_this_machine = self._mpi.COMM_WORLD.Split_type(self._mpi.COMM_TYPE_SHARED)
        return int(on_this_machine.Get_rank())
