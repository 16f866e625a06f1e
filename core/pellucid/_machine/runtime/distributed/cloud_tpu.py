"""Detection of TPU virtual machines in Google's cloud."""

from __future__ import annotations

import abc
import http
import os
import time
import urllib.error
import urllib.request

from pellucid._machine.base import DistributedError
from pellucid._machine.xla import plugins

from .cluster import Cluster, wait_for_host

_TPU_PORT = 8482
_ATTRIBUTES = "computeMetadata/v1/instance/attributes"
_ANSWER_TIMEOUT_SECONDS = 10.0
_METADATA_RETRY_SECONDS = (0.5, 0.5, 0.0)


def metadata(key: str) -> str | None:
    """The attribute `key` of this Compute Engine machine; None if it has none, or isn't such a machine."""
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
        time.sleep(seconds)  # the server may be busy
    return None


class _CloudTpu(Cluster):
    """A TPU slice, or several connected ones (Megascale)."""

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
        """A variable from the environment, or from the machine's `tpu-env`, whose lines are like KEY: 'value'."""
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
