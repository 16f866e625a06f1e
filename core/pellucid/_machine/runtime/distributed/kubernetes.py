"""Jobs on Kubernetes: indexed jobs and job sets."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pathlib
import socket
import time
import warnings
from collections.abc import Callable
from typing import Any

from pellucid._machine.base import DistributedError

from .cluster import Cluster, wait_for_host

_POD_PORT = 55527
_POD_RETRY_SECONDS = (0.1, 0.5, 1.0, 3.0, 10.0, 0.0)
_NAMESPACE_FILE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_JOBSET = "jobset.sigs.k8s.io/jobset-name"


class Kubernetes(Cluster):
    """A pod of an indexed Job; queries the cluster's API with the package `kubernetes`, if it is installed."""

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
        importlib.import_module("kubernetes.config").load_incluster_config()  # optional package
        return importlib.import_module("kubernetes.client")

    @functools.cached_property
    def _namespace(self) -> str:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()

    @functools.cached_property
    def _pod(self):
        address = socket.gethostbyname(os.environ.get("HOSTNAME") or socket.gethostname())
        for seconds in _POD_RETRY_SECONDS:
            answer = self._query(
                lambda: self._client.CoreV1Api().list_namespaced_pod(
                    namespace=self._namespace, field_selector=f"status.podIP={address}"
                )
            )
            if len(answer.items) == 1:
                return answer.items[0]
            time.sleep(seconds)  # the API reports a new pod's address with a delay
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
        return self._query(
            lambda: self._client.BatchV1Api().read_namespaced_job(
                name=name, namespace=self._namespace
            )
        )

    def _query(self, question: Callable[[], Any]):
        try:
            return question()
        except self._client.exceptions.ApiException as error:
            raise DistributedError(
                "distributed.initialize: the Kubernetes API refused the request.",
                got=f"{error.status}: {error.reason}",
                do="Give the pod's service account permission to read pods and jobs."
                if error.status == 403
                else None,
            ) from error
