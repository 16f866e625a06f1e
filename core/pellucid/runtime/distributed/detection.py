"""Which cluster started this process, and what it says about the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pellucid.base import ArgumentValueError

from .cloud_tpu import ComputeEngineTpu, KubernetesTpu
from .cluster import Cluster, Place
from .kubernetes import Kubernetes
from .mpi import Mpi4py, OpenMpi
from .slurm import Slurm

CLUSTERS: tuple[Callable[[], Cluster], ...] = (
    OpenMpi, Slurm, Mpi4py, KubernetesTpu, ComputeEngineTpu, Kubernetes,
)  # fmt: skip
"""Detectors, in the order in which they are asked."""


def complete(
    place: Place,
    method: str | None,
    seconds: float,
    clusters: Sequence[Callable[[], Cluster]] = CLUSTERS,
) -> Place:
    """`place` with what it lacks taken from the cluster `method`, or from the first that is present.

    Raises: ArgumentValueError if `method` is unknown, or not the cluster that this process is in.
    """
    if method == "deactivate" or None not in place:
        return place
    cluster = _named(method, clusters) if method is not None else _first_present(clusters)
    if cluster is None:
        return place
    address, count, process, devices = place
    if address is None:
        host, port = cluster.coordinator(seconds)
        host = f"[{host}]" if ":" in host else host
        address = f"{host}:{os.environ.get('JAX_COORDINATOR_PORT', port)}"
    if devices is None:
        local = cluster.local_process_id()
        devices = None if local is None else (local,)
    return Place(
        address,
        cluster.num_processes() if count is None else count,
        cluster.process_id() if process is None else process,
        devices,
    )


def _first_present(clusters: Sequence[Callable[[], Cluster]]) -> Cluster | None:
    candidates = (make() for make in clusters)
    return next((c for c in candidates if c.is_asked_unnamed and c.is_present()), None)


def _named(method: str, clusters: Sequence[Callable[[], Cluster]]) -> Cluster:
    by_name = {cluster.name: cluster for cluster in (make() for make in clusters)}
    cluster = by_name.get(method)
    if cluster is None:
        raise ArgumentValueError(
            f"distributed.initialize: there is no cluster_detection_method {method!r}.",
            do=f"Known ones: {', '.join(sorted(by_name))}, deactivate.",
        )
    if not cluster.is_present():
        raise ArgumentValueError(
            f"distributed.initialize: this process is not in a cluster {method!r}.",
            do="Start it as such a job, or pass coordinator_address, num_processes and process_id.",
        )
    return cluster
