"""Arguments of platforms' clients in a job; exchanges with other processes are in tests/multi_process."""

import socket

import pytest

from pellucid._machine.base import config
from pellucid._machine.base.errors import DistributedError
from pellucid._machine.runtime import peers, platforms
from pellucid._machine.runtime.distributed import sockets
from pellucid._machine.runtime.distributed.job import make_mpi
from pellucid._machine.xla import plugins


class FakeJob:
    """A job of two processes, as platforms ask it."""

    client = "the client"

    def accelerator_options(self):
        return {"node_id": 1, "num_nodes": 2}


def test_a_gpu_client_joins_the_job_with_its_visible_devices(monkeypatch):
    requests = []
    monkeypatch.setattr(plugins, "make_cuda_client", lambda *inputs: requests.append(inputs))
    platforms._make_cuda()
    monkeypatch.setattr(peers, "jobs", [FakeJob()])
    with config.cuda_visible_devices("0,2"):
        platforms._make_cuda()
    joined = {"visible_devices": [0, 2], "node_id": 1, "num_nodes": 2}
    assert requests == [({},), (joined, "the client")]


def test_mpi_without_its_library_is_refused(monkeypatch):
    monkeypatch.delenv("MPITRAMPOLINE_LIB", raising=False)
    with pytest.raises(DistributedError, match=r"MPITRAMPOLINE_LIB: not set"):
        make_mpi()


def test_only_connections_of_the_named_addresses_are_cut():
    """Connections to an address of this process, and from it to one of another."""
    ours, host = sockets.listening_while(
        lambda: socket.create_server(("127.0.0.1", 0)), "127.0.0.1"
    )
    with (
        ours,
        socket.create_server(("127.0.0.1", 0)) as theirs,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        assert host == ours.getsockname()
        pairs = [
            (socket.create_connection(s.getsockname()), s.accept()[0])
            for s in (ours, theirs, other)
        ]
        try:
            # Both ends are in this process here: the accepting one of `ours`, the calling one of `theirs`.
            assert sockets.cut(host, {theirs.getsockname()}) == 2
            for cut, far in (pairs[0][::-1], pairs[1]):
                assert cut.recv(1) == b""
                cut.sendall(b"x")  # what gloo sends before it has noticed must not fail
                assert far.recv(1) == b"x"
            pairs[2][0].sendall(b"x")
            assert pairs[2][1].recv(1) == b"x"
        finally:
            for pair in pairs:
                for end in pair:
                    end.close()
