"""Clusters, from their schedulers' environments, metadata and APIs, all of them simulated."""

import http.server
import importlib
import importlib.util
import os
import socket
import sys
import threading
import time
import types

import pytest

from pellucid._machine.base.errors import (
    ArgumentValueError,
    DistributedError,
    DistributedTimeoutError,
)
from pellucid._machine.runtime.distributed import cloud_tpu, clusters, kubernetes as pods
from pellucid._machine.runtime.distributed.cloud_tpu import ComputeEngineTpu, KubernetesTpu
from pellucid._machine.runtime.distributed.cluster import ProcessIdentity, wait_for_host
from pellucid._machine.runtime.distributed.clusters import complete_place
from pellucid._machine.runtime.distributed.kubernetes import Kubernetes
from pellucid._machine.runtime.distributed.mpi import Mpi4py, OpenMpi
from pellucid._machine.runtime.distributed.slurm import Slurm
from pellucid._machine.xla import plugins

SLURM = {
    "SLURM_JOB_ID": "4099",
    "SLURM_STEP_NODELIST": "node[007,009-012],other3",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch):
    """There are no hosts to wait for, no TPU, and no optional package."""
    for module in (cloud_tpu, pods):
        monkeypatch.setattr(module, "wait_for_host", lambda host, seconds: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(plugins, "tpu_library", lambda: None)


def place_in(kind, environment, place=None, method=None):
    """The place of a process for which only clusters of one kind are looked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "CLUSTERS", (kind,))
        patch.setattr(os, "environ", environment)
        return complete_place(place or ProcessIdentity(), method, 5.0)


# Slurm and MPI ------------------------------------------------------------------------------------


def test_slurm_says_everything():
    assert place_in(Slurm, SLURM) == ProcessIdentity("node007:61443", 8, 5, (1,))


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node001", "node001"),
        ("node001,host2", "node001"),
        ("node[001-015],host2", "node001"),
        ("node[001,007-015],host2", "node001"),
        ("gpu-a[10-12]-ib,host2", "gpu-a10-ib"),
        ("c[1-2]", "c1"),
    ],
)
def test_the_first_node_of_slurm(nodes, first):
    place = place_in(Slurm, {**SLURM, "SLURM_STEP_NODELIST": nodes})
    assert place.coordinator_address == f"{first}:61443"


def test_slurm_is_present_only_with_all_it_says():
    for name in SLURM:
        assert place_in(Slurm, {n: v for n, v in SLURM.items() if n != name}) == ProcessIdentity()


def test_a_number_that_is_none_is_named():
    with pytest.raises(
        DistributedError, match=r"slurm cluster doesn't say[^\n]*\n.*SLURM_NTASKS: 'x'"
    ):
        place_in(Slurm, {**SLURM, "SLURM_NTASKS": "x"})


def test_open_mpi_says_everything():
    port = 61440 + (1531576320 // 4096) % 4096
    assert place_in(OpenMpi, OPEN_MPI) == ProcessIdentity(f"10.96.0.1:{port}", 4, 2, (0,))


def test_open_mpi_with_addresses_of_ip_version_6():
    uri = "1314521088.0;tcp6://[fe80::b9b:ac5d:9cf0:b858,2620:10d:c083:150e::3000:2]:43370"
    actual = place_in(OpenMpi, {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": uri})
    assert actual.coordinator_address is not None
    assert actual.coordinator_address.startswith("[fe80::b9b:ac5d:9cf0:b858]:")


def test_open_mpi_without_an_address():
    with pytest.raises(DistributedError, match="names no address"):
        place_in(OpenMpi, {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "nothing"})


OPEN_MPI_5 = {
    "PMIX_NAMESPACE": "prterun-node-7-3053@1",
    "PMIX_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}


def test_open_mpi_5_says_everything():
    assert place_in(OpenMpi, OPEN_MPI_5) == ProcessIdentity(f"node-7:{61440 + 3053}", 4, 2, (0,))
    on_one_host = {**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    assert place_in(OpenMpi, on_one_host).coordinator_address == f"127.0.0.1:{61440 + 3053}"
    second = {**OPEN_MPI_5, "PMIX_NAMESPACE": "prte-node-7-3053@2"}  # of the same daemon
    assert place_in(OpenMpi, second).coordinator_address == f"node-7:{61440 + 2 * 3053 % 4096}"


def test_open_mpi_5_under_another_launcher():
    with pytest.raises(DistributedError, match="PMIX_NAMESPACE names no host"):
        place_in(OpenMpi, {**OPEN_MPI_5, "PMIX_NAMESPACE": "367984641"})
    without_open_mpi = {"PMIX_NAMESPACE": "slurm.pmix.12.0", "PMIX_RANK": "1"}
    assert place_in(OpenMpi, without_open_mpi) == ProcessIdentity()


class FakeCommunicator:
    """MPI's world as process `rank` of `size` sees it; process 0's broadcasts are there already."""

    def __init__(self, rank, size, sent, local=None):
        self.rank, self.size, self.sent, self.local = rank, size, sent, local
        self.received = iter(sent)

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def bcast(self, value, root):
        assert root == 0
        if self.rank == 0:
            self.sent.append(value)
        else:
            assert value is None
        return next(self.received)

    def Split_type(self, kind):
        assert kind == "shared"
        return self.local


def mpi4py_with(monkeypatch, world):
    """Makes mpi4py importable, with a world."""
    mpi = types.SimpleNamespace(COMM_WORLD=world, COMM_TYPE_SHARED="shared")
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "mpi4py" or None)


def test_all_processes_of_mpi4py_have_the_same_coordinator(monkeypatch):
    sent = []
    actual = []
    for rank in range(3):
        local = FakeCommunicator(rank % 2, 2, sent)
        world = FakeCommunicator(rank, 3, sent, local)
        mpi4py_with(monkeypatch, world)
        actual.append(place_in(Mpi4py, {}, method="mpi4py"))
    assert len({place.coordinator_address for place in actual}) == 1
    assert [place[1:4] for place in actual] == [(3, 0, (0,)), (3, 1, (1,)), (3, 2, (0,))]
    [secret] = {place.secret for place in actual}
    assert len(secret) == 32


def test_the_random_number_of_an_mpirun_is_its_secret():
    key = {"OMPI_MCA_orte_precondition_transports": "0123456789abcdef-fedcba9876543210"}
    assert place_in(OpenMpi, OPEN_MPI | key).secret == "0123456789abcdef-fedcba9876543210"
    assert place_in(OpenMpi, OPEN_MPI | key, ProcessIdentity(secret="mine")).secret == "mine"
    assert place_in(OpenMpi, OPEN_MPI).secret is None


def test_mpi4py_is_asked_only_by_name(monkeypatch):
    mpi4py_with(monkeypatch, FakeCommunicator(0, 1, []))
    assert place_in(Mpi4py, {}) == ProcessIdentity()


# Kubernetes ---------------------------------------------------------------------------------------


class FakeApiError(Exception):
    status, reason = 403, "Forbidden"


class FakeKubernetes:
    """The part of the package `kubernetes` that is asked, for one pod of the job "train"."""

    exceptions = types.SimpleNamespace(ApiException=FakeApiError)

    def __init__(
        self, *, subdomain="pods", jobset=None, labels=None, is_allowed=True, pods=1, late=0
    ):
        meta = types.SimpleNamespace
        pod = types.SimpleNamespace(
            metadata=meta(
                name="train-1-x", labels={"job-name": "train"} if labels is None else labels
            ),
            spec=types.SimpleNamespace(subdomain=subdomain),
        )
        jobset_labels = {"jobset.sigs.k8s.io/jobset-name": jobset} if jobset else None
        self.pods = [pod] * pods
        self.late = late
        self.job = types.SimpleNamespace(
            metadata=meta(name="train", labels=jobset_labels),
            spec=types.SimpleNamespace(parallelism=4),
        )
        self.is_allowed = is_allowed
        self.asked = []
        self.slept = []

    def CoreV1Api(self):
        return self

    BatchV1Api = CoreV1Api

    def list_namespaced_pod(self, namespace, field_selector):
        if not self.is_allowed:
            raise FakeApiError
        self.asked.append((namespace, field_selector))
        return types.SimpleNamespace(items=self.pods if len(self.slept) >= self.late else [])

    def read_namespaced_job(self, name, namespace):
        self.asked.append((namespace, name))
        return self.job


@pytest.fixture
def kubernetes(monkeypatch, tmp_path):
    """Function that gives the place in a pod whose API is `client`, with changes of its environment."""
    namespace = tmp_path / "namespace"
    namespace.write_text("research\n")
    monkeypatch.setattr(pods, "_NAMESPACE_FILE", namespace)
    monkeypatch.setattr(socket, "gethostbyname", {"train-1-x": "10.1.2.3"}.__getitem__)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "kubernetes" or None)

    def place(client, **more):
        monkeypatch.setattr(time, "sleep", client.slept.append)
        configuration = types.SimpleNamespace(load_incluster_config=lambda: None)
        monkeypatch.setitem(sys.modules, "kubernetes", types.SimpleNamespace())
        monkeypatch.setitem(sys.modules, "kubernetes.config", configuration)
        monkeypatch.setitem(sys.modules, "kubernetes.client", client)
        environment = {
            "KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-1-x", "JOB_COMPLETION_INDEX": "1",
            **more,
        }  # fmt: skip
        present = {name: value for name, value in environment.items() if value is not None}
        return place_in(Kubernetes, present)

    return place


def test_kubernetes_says_everything_but_the_devices(kubernetes):
    client = FakeKubernetes()
    assert kubernetes(client) == ProcessIdentity("train-0.pods:55527", 4, 1, None)
    assert client.asked == [("research", "status.podIP=10.1.2.3"), ("research", "train")]


def test_a_jobset_has_its_own_domain(kubernetes):
    client = FakeKubernetes(subdomain=None, jobset="experiment")
    assert kubernetes(client).coordinator_address == "train-0.experiment:55527"


@pytest.mark.parametrize(
    ("client", "more", "message"),
    [
        ({"subdomain": None}, {}, r"can't reach each other[\s\S]*Make a headless service"),
        ({"labels": {}}, {}, "only pods of a Kubernetes Job"),
        ({"pods": 0}, {}, "0 pods with address 10.1.2.3"),
        ({"is_allowed": False}, {}, r"403: Forbidden[\s\S]*permission to read pods"),
        ({}, {"JOB_COMPLETION_INDEX": None}, r'Set `completionMode: "Indexed"`'),
    ],
)
def test_what_a_kubernetes_job_lacks_is_named(kubernetes, client, more, message):
    with pytest.raises(DistributedError, match=message):
        kubernetes(FakeKubernetes(**client), **more)


def test_a_pod_that_the_api_does_not_know_yet_is_asked_for_again(kubernetes):
    client = FakeKubernetes(late=3)
    assert kubernetes(client).process_id == 1
    assert client.slept == [0.1, 0.5, 1.0]


def test_kubernetes_without_its_package_is_pointed_out():
    with pytest.warns(UserWarning, match="with the package `kubernetes` installed"):
        assert place_in(Kubernetes, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == ProcessIdentity()


def test_kubernetes_is_not_asked_outside_of_it(kubernetes):
    client = FakeKubernetes()
    assert kubernetes(client, KUBERNETES_SERVICE_HOST=None) == ProcessIdentity()
    assert client.asked == []


# Cloud TPU ----------------------------------------------------------------------------------------


@pytest.fixture
def tpu(monkeypatch):
    monkeypatch.setattr(plugins, "tpu_library", lambda: "libtpu.so")


@pytest.fixture
def compute_engine(monkeypatch, tpu):
    """Function that gives the place on a TPU machine with certain metadata."""

    def place(attributes, environment=()):
        monkeypatch.setattr(cloud_tpu, "metadata", attributes.get)
        return place_in(ComputeEngineTpu, dict(environment))

    return place


ONE_SLICE = {
    "agent-worker-number": "1",
    "worker-network-endpoints": "unknown:1:10.0.0.5,unknown:2:10.0.0.6",
}


def test_a_slice_of_compute_engine(compute_engine):
    assert compute_engine(ONE_SLICE) == ProcessIdentity("10.0.0.5:8482", 2, 1, None)


def test_hosts_by_name_alone(compute_engine):
    place = compute_engine({**ONE_SLICE, "worker-network-endpoints": "host-a,host-b"})
    assert place.coordinator_address == "host-a:8482"


def test_several_slices_of_compute_engine(compute_engine):
    several = "ACCELERATOR_TYPE: 'v4-16'\nMEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'\n"
    several += "MEGASCALE_COORDINATOR_ADDRESS: '10.9.9.9:8081'\n"
    actual = compute_engine({**ONE_SLICE, "tpu-env": several})
    assert actual == ProcessIdentity("10.9.9.9:8482", 6, 5, None)


def test_the_environment_goes_before_the_metadata(compute_engine):
    place = compute_engine(
        {**ONE_SLICE, "tpu-env": "MEGASCALE_NUM_SLICES: '3'"}, {"MEGASCALE_NUM_SLICES": "2"}
    )
    assert place.num_processes == 4


def test_metadata_that_names_no_workers(compute_engine):
    with pytest.raises(DistributedError, match="doesn't name its workers"):
        compute_engine({"agent-worker-number": "0", "worker-network-endpoints": "a:b"})


def test_compute_engine_is_asked_only_where_there_is_a_tpu(monkeypatch, compute_engine):
    def refuse(key):
        raise AssertionError(key)

    assert compute_engine({}) == ProcessIdentity()
    monkeypatch.setattr(cloud_tpu, "metadata", refuse)
    assert place_in(ComputeEngineTpu, {"TPU_SKIP_MDS_QUERY": "1"}) == ProcessIdentity()
    monkeypatch.setattr(plugins, "tpu_library", lambda: None)
    assert place_in(ComputeEngineTpu, {}) == ProcessIdentity()


@pytest.mark.parametrize(
    ("answers", "actual"), [([200], "7"), ([404], None), ([503, 200], "7"), ([503] * 3, None)]
)
def test_metadata_of_a_machine(monkeypatch, answers, actual):
    """A server that is busy is asked again; one that doesn't know the attribute is not."""
    left = list(answers)

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.headers["Metadata-Flavor"] == "Google"
            assert self.path == "/computeMetadata/v1/instance/attributes/agent-worker-number"
            self.send_response(left.pop(0))
            self.end_headers()
            self.wfile.write(b"7")

        def log_message(self, *_):
            pass

    monkeypatch.setattr(cloud_tpu, "_METADATA_RETRY_SECONDS", (0.0, 0.0, 0.0))
    with http.server.HTTPServer(("127.0.0.1", 0), Metadata) as server:
        monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert cloud_tpu.metadata("agent-worker-number") == actual
        server.shutdown()
    assert left == []


def test_tpu_pods_of_kubernetes(monkeypatch, tpu):
    monkeypatch.setattr(cloud_tpu, "metadata", {}.get)
    environment = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "w-0.svc,w-1.svc,w-2.svc"}
    assert place_in(KubernetesTpu, environment) == ProcessIdentity("w-0.svc:8482", 3, 2, None)
    addresses = {**environment, "TPU_PROCESS_ADDRESSES": "10.0.0.1:8476,10.0.0.2:8476"}
    assert place_in(KubernetesTpu, addresses) == ProcessIdentity("10.0.0.1:8482", 2, 2, None)
    monkeypatch.setattr(plugins, "tpu_library", lambda: None)
    assert place_in(KubernetesTpu, environment) == ProcessIdentity()


# Which is asked -----------------------------------------------------------------------------------


def test_what_is_given_stays():
    inputs = ProcessIdentity("here:1", None, 3, None)
    assert place_in(Slurm, SLURM, inputs) == ProcessIdentity("here:1", 8, 3, (1,))
    assert place_in(Slurm, SLURM, ProcessIdentity("a:1", 1, 0, (0,))) == ProcessIdentity(
        "a:1", 1, 0, (0,)
    )


def test_clusters_are_asked_in_this_order(monkeypatch):
    """The first that is present answers; mpi4py only by name."""
    names = [kind.name for kind in clusters.CLUSTERS]
    assert names == ["ompi", "slurm", "mpi4py", "gketpu", "gcetpu", "k8s"]
    monkeypatch.setattr(os, "environ", {**OPEN_MPI, **SLURM})
    assert complete_place(ProcessIdentity(), None, 1.0).num_processes == 4
    assert complete_place(ProcessIdentity(), "slurm", 1.0).num_processes == 8


def test_nothing_is_asked_when_detection_is_deactivated():
    assert place_in(Slurm, SLURM, method="deactivate") == ProcessIdentity()


def test_the_port_can_be_chosen():
    place = place_in(Slurm, {**SLURM, "JAX_COORDINATOR_PORT": "1234"})
    assert place.coordinator_address == "node007:1234"


def test_a_method_that_is_unknown_or_elsewhere():
    with pytest.raises(ArgumentValueError, match=r"no cluster_detection_method 'lsf'[\s\S]*slurm"):
        place_in(Slurm, SLURM, method="lsf")
    with pytest.raises(ArgumentValueError, match="not in a cluster 'slurm'"):
        place_in(Slurm, {}, method="slurm")


def test_none_is_found_here():
    assert complete_place(ProcessIdentity(), None, 1.0) == ProcessIdentity()


def test_a_host_that_does_not_appear():
    wait_for_host("localhost", 1.0)
    with pytest.raises(DistributedTimeoutError, match=r"'no\.such\.host\.invalid' was not found"):
        wait_for_host("no.such.host.invalid", 0.1)
