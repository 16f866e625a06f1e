"""Clusters that start the processes of a job, and what each of them says about this process's place in it."""

from __future__ import annotations

import abc
import functools
import http
import importlib
import importlib.util
import os
import pathlib
import re
import secrets
import socket
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentValueError, DistributedError, DistributedTimeoutError
from pellucid._machine.xla import plugins

_FIRST_EPHEMERAL_PORT = 61440
_PORTS = 4096
_LOOKUP_INTERVAL_SECONDS = 1.0


class Place(NamedTuple):
    """Where a process is in its job; None for what isn't known."""

    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    local_device_ids: tuple[int, ...] | None = None
    secret: str | None = None


class Cluster(abc.ABC):
    """A kind of cluster, as it is seen from one of its processes."""

    name: str
    is_asked_unnamed = True
    """Whether it is looked for where `cluster_detection_method` names none."""

    @abc.abstractmethod
    def is_present(self) -> bool:
        """Whether this process was started by such a cluster."""

    @abc.abstractmethod
    def coordinator(self, seconds: float) -> tuple[str, int]:
        """Host of process 0, and a port that all processes choose alike; may wait `seconds` for the host."""

    @abc.abstractmethod
    def num_processes(self) -> int: ...

    @abc.abstractmethod
    def process_id(self) -> int: ...

    def local_process_id(self) -> int | None:
        """Index among the processes of this machine, where each of them uses one GPU."""
        return None

    def secret(self) -> str | None:
        """A text that only the processes of the job are given, where there is one."""
        return None

    def _number(self, name: str, text: str | None = None) -> int:
        """The environment variable `name`, or a `text` of that name from elsewhere, as an integer.

        Raises: DistributedError if it is missing or no integer.
        """
        text = text or os.environ.get(name)
        if text is None or not text.strip().isdecimal():
            raise DistributedError(
                f"distributed.initialize: the {self.name} cluster doesn't say what it should.",
                got=f"{name}: {'not set' if text is None else repr(text)}",
                do="Pass coordinator_address, num_processes and process_id.",
            )
        return int(text)


def port_for_job(job_id: int) -> int:
    """A port in the upper ephemeral range, so that jobs on one machine seldom share it."""
    return _FIRST_EPHEMERAL_PORT + job_id % _PORTS


def wait_for_host(host: str, seconds: float) -> None:
    """Wait until `host` has an address: the names of machines appear when they have started."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise DistributedTimeoutError(
                    f"the coordinator's host {host!r} was not found within {seconds:g} s.",
                    got=str(error),
                ) from None
            time.sleep(_LOOKUP_INTERVAL_SECONDS)
        else:
            return


# Schedulers -----------------------------------------------------------------------------------------

# "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1314521088.0;tcp6://[fe80::b9b:ac5d,2620::2]:43370"
_URI = re.compile(r"(?P<job>\d+)\.\d+;(?:tcp://(?P<v4>[^,:]+)|tcp6://\[(?P<v6>[^,\]]+))")
_URI_VARIABLE = "OMPI_MCA_orte_hnp_uri"
_KEY_VARIABLE = "OMPI_MCA_orte_precondition_transports"
"""A random number that `mpirun` gives to all processes that it starts."""
_JOB_ID_STEP = 4096
"""Job ids of Open MPI are multiples of this."""
_NAMESPACE = re.compile(r"\w+-(?P<host>.+)-(?P<pid>\d+)@(?P<number>\d+)")
"""Name of a job of Open MPI 5, as "prterun-node7-3053@1": host and process id of its `mpirun`, and which job of that it is."""


class _Launched(Cluster):
    """Processes that are numbered in the environment."""

    variables: tuple[str, str, str]
    """Names of the number of processes, and of this one's index among all and among those of its machine."""

    def num_processes(self):
        return self._number(self.variables[0])

    def process_id(self):
        return self._number(self.variables[1])

    def local_process_id(self):
        return self._number(self.variables[2])


class OpenMpi(_Launched):
    """A process that Open MPI's `mpirun` started. Process 0 must be on the host where that runs, as it is by default."""

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
    """A process of any MPI for which mpi4py is installed; asked only by name, since it initializes MPI."""

    name = "mpi4py"
    is_asked_unnamed = False

    @property
    def _mpi(self):
        return importlib.import_module("mpi4py.MPI")  # an optional package

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


_FIRST_NODE = re.compile(
    r"(?P<prefix>[^,\[\]]+)(?:\[(?P<number>\d+)[^\]]*\])?(?P<suffix>[^,\[\]]*)"
)


class Slurm(_Launched):
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


# Clouds ---------------------------------------------------------------------------------------------

_TPU_PORT = 8482
_ATTRIBUTES = "computeMetadata/v1/instance/attributes"
_ANSWER_TIMEOUT_SECONDS = 10.0
_METADATA_RETRY_SECONDS = (0.5, 0.5, 0.0)


def metadata(key: str) -> str | None:
    """The attribute `key` of this machine of Compute Engine; None if it has none, or is no such machine."""
    host = os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{host}/{_ATTRIBUTES}/{key}", headers={"Metadata-Flavor": "Google"}
    )
    for seconds in _METADATA_RETRY_SECONDS:
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.NOT_FOUND:
                return None
        except OSError:
            pass
        time.sleep(seconds)  # it may be busy
    return None


class _CloudTpu(Cluster):
    """One slice of TPUs, or several that are joined (Megascale)."""

    @abc.abstractmethod
    def workers(self) -> list[str]:
        """Hosts of this slice's processes, in order."""

    @abc.abstractmethod
    def worker(self) -> int:
        """Index of this process within its slice."""

    def coordinator(self, seconds):
        host = self._setting("MEGASCALE_COORDINATOR_ADDRESS") or self.workers()[0]
        host = host.partition(":")[0]
        wait_for_host(host, seconds)
        return host, _TPU_PORT

    def num_processes(self):
        return len(self.workers()) * int(self._setting("MEGASCALE_NUM_SLICES") or 1)

    def process_id(self):
        slice_id = int(self._setting("MEGASCALE_SLICE_ID") or 0)
        return self.worker() + slice_id * len(self.workers())

    def _setting(self, name: str) -> str | None:
        """A variable of the environment, or of the machine's `tpu-env`, whose lines are like KEY: 'value'."""
        value = os.environ.get(name)
        if value is not None:
            return value
        lines = (line.partition(":") for line in (metadata("tpu-env") or "").splitlines())
        return {key.strip(): text.strip().strip("'") for key, _, text in lines}.get(name)


class ComputeEngineTpu(_CloudTpu):
    """TPU machines of Compute Engine."""

    name = "gcetpu"

    def is_present(self):
        return (
            plugins.tpu_library() is not None
            and "TPU_SKIP_MDS_QUERY" not in os.environ
            and metadata("agent-worker-number") is not None
        )

    def workers(self):
        # Entries are hosts, or `name:id:address`.
        entries = (metadata("worker-network-endpoints") or "").split(",")
        hosts = [entry.split(":")[2] if entry.count(":") == 2 else entry for entry in entries]
        if not all(hosts) or any(":" in host for host in hosts):
            raise DistributedError(
                "distributed.initialize: the metadata of this TPU machine doesn't name its workers.",
                got=f"worker-network-endpoints: {','.join(entries)!r}",
            )
        return hosts

    def worker(self):
        return self._number("agent-worker-number", metadata("agent-worker-number"))


class KubernetesTpu(_CloudTpu):
    """TPU pods of GKE."""

    name = "gketpu"

    def is_present(self):
        return plugins.tpu_library() is not None and self._names() is not None

    def workers(self):
        return (self._names() or "").split(",")

    def worker(self):
        return self._number("TPU_WORKER_ID")

    def _names(self) -> str | None:
        return os.environ.get("TPU_PROCESS_ADDRESSES", os.environ.get("TPU_WORKER_HOSTNAMES"))


_POD_PORT = 55527
_POD_RETRY_SECONDS = (0.1, 0.5, 1.0, 3.0, 10.0, 0.0)
_NAMESPACE_FILE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_JOBSET = "jobset.sigs.k8s.io/jobset-name"


class Kubernetes(Cluster):
    """A pod of an indexed Job; asks the cluster's API through the package `kubernetes`, if it is installed."""

    name = "k8s"

    def is_present(self):
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            return False
        if importlib.util.find_spec("kubernetes") is None:
            warnings.warn(
                "This is a pod of Kubernetes; with the package `kubernetes` installed, "
                "distributed.initialize() finds the others by itself.",
                stacklevel=2,
            )
            return False
        return True

    def coordinator(self, seconds):
        job, pod = self._job, self._pod
        domain = (job.metadata.labels or {}).get(_JOBSET) or pod.spec.subdomain
        if domain is None:
            raise DistributedError(
                "distributed.initialize: the pods of this Kubernetes Job can't reach each other.",
                got=f"pod {pod.metadata.name} has no subdomain",
                do="Make a headless service (clusterIP: None, selector job-name) and name it as `subdomain` of the pods.",
            )
        host = f"{job.metadata.name}-0.{domain}"
        wait_for_host(host, seconds)
        return host, _POD_PORT

    def num_processes(self):
        return int(self._job.spec.parallelism)

    def process_id(self):
        if "JOB_COMPLETION_INDEX" not in os.environ:
            raise DistributedError(
                "distributed.initialize: this Kubernetes Job doesn't number its pods.",
                got="JOB_COMPLETION_INDEX: not set",
                do='Set `completionMode: "Indexed"` in the Job.',
            )
        return self._number("JOB_COMPLETION_INDEX")

    @functools.cached_property
    def _client(self):
        importlib.import_module("kubernetes.config").load_incluster_config()  # an optional package
        return importlib.import_module("kubernetes.client")

    @functools.cached_property
    def _namespace(self) -> str:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()

    @functools.cached_property
    def _pod(self):
        address = socket.gethostbyname(os.environ.get("HOSTNAME") or socket.gethostname())
        for seconds in _POD_RETRY_SECONDS:
            answer = self._asked(
                lambda: self._client.CoreV1Api().list_namespaced_pod(
                    namespace=self._namespace, field_selector=f"status.podIP={address}"
                )
            )
            if len(answer.items) == 1:
                return answer.items[0]
            time.sleep(seconds)  # the API learns of a new pod's address after a while
        raise DistributedError(
            "distributed.initialize: this pod was not found in its Kubernetes namespace.",
            got=f"{len(answer.items)} pods with address {address}",
        )

    @functools.cached_property
    def _job(self):
        name = (self._pod.metadata.labels or {}).get("job-name")
        if name is None:
            raise DistributedError(
                "distributed.initialize: only pods of a Kubernetes Job or JobSet find each other.",
                got=f"pod {self._pod.metadata.name} has no label job-name",
                do="Pass coordinator_address, num_processes and process_id.",
            )
        return self._asked(
            lambda: self._client.BatchV1Api().read_namespaced_job(
                name=name, namespace=self._namespace
            )
        )

    def _asked(self, question: Callable[[], Any]):
        try:
            return question()
        except self._client.exceptions.ApiException as error:
            raise DistributedError(
                "distributed.initialize: the Kubernetes API does not answer.",
                got=f"{error.status}: {error.reason}",
                do="Give the pod's service account permission to read pods and jobs."
                if error.status == 403
                else None,
            ) from error


# Choice ---------------------------------------------------------------------------------------------

CLUSTERS: tuple[type[Cluster], ...] = (
    OpenMpi, Slurm, Mpi4py, KubernetesTpu, ComputeEngineTpu, Kubernetes,
)  # fmt: skip
"""Detectors, in the order in which they are asked."""


def completed(place: Place, method: str | None, seconds: float) -> Place:
    """`place` with what it lacks taken from the cluster `method`, or from the first that is present.

    Raises: ArgumentValueError if `method` is unknown, or not the cluster that this process is in.
    """
    if method == "deactivate" or None not in place:
        return place
    if method is not None:
        cluster = _named(method)
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
    return Place(
        address,
        cluster.num_processes() if count is None else count,
        cluster.process_id() if process is None else process,
        devices,
        cluster.secret() if secret is None else secret,
    )


def _named(method: str) -> Cluster:
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
