"""The supported clusters, and detection of a process's place in a job."""

from __future__ import annotations

import os

from pellucid._machine.base import ArgumentValueError

from .cloud_tpu import ComputeEngineTpu, KubernetesTpu
from .cluster import Cluster, ProcessIdentity
from .kubernetes import Kubernetes
from .mpi import Mpi4py, OpenMpi
from .slurm import Slurm

CLUSTERS: tuple[type[Cluster], ...] = (
    OpenMpi, Slurm, Mpi4py, KubernetesTpu, ComputeEngineTpu, Kubernetes,
)  # fmt: skip
"""Detectors, in the order in which they are tried."""


def complete_place(place: ProcessIdentity, method: str | None, seconds: float) -> ProcessIdentity:
    """`place`, with missing parts taken from the cluster `method`, or from the first one that is present.

    Raises: ArgumentValueError if `method` is unknown, or isn't the cluster of this process.
    """
    if method == "deactivate" or None not in place:
        return place
    if method is not None:
        cluster = _cluster_of_name(method)
    else:
        candidates = (kind() for kind in CLUSTERS if kind.is_asked_unnamed)
        cluster = next((c for c in candidates if c.is_present()), None)
    if cluster is None:
        return place
    address, count, process, devices, secret = place
    if address is None:
        host, port = cluster.coordinator(seconds)
        host = f"[{host}]" if ":" in host else host
        address = f"{host}:{os.environ.get('JAX_COORDINATOR_PORT', port)}"
    if devices is None:
        local = cluster.local_process_id()
        devices = None if local is None else (local,)
    return ProcessIdentity(
        address,
        cluster.num_processes() if count is None else count,
        cluster.process_id() if process is None else process,
        devices,
        cluster.secret() if secret is None else secret,
    )


def _cluster_of_name(method: str) -> Cluster:
    by_name = {cluster.name: cluster for cluster in CLUSTERS}
    if method not in by_name:
        raise ArgumentValueError(
            f"distributed.initialize: there is no cluster_detection_method {method!r}.",
            do=f"Known ones: {', '.join(sorted(by_name))}, deactivate.",
        )
    cluster = by_name[method]()
    if not cluster.is_present():
        raise ArgumentValueError(
            f"distributed.initialize: this process is not in a cluster {method!r}.",
            do="Start it as such a job, or pass coordinator_address, num_processes and process_id.",
        )
    return cluster
