"""Transfers of arrays between processes that are no job, under the names of `jax.experimental.transfer`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid._machine.base.tree import tree_flatten
from pellucid._machine.xla import distributed as xla_distributed
from pellucid._machine.xla.client import Client


class TransferConnection:
    """A connection to the server of another process, which `TransferServer.connect` makes.

    >>> server = start_transfer_server(pl.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
    >>> isinstance(server.connect(server.address()), TransferConnection)
    True
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def pull(self, uuid: int, xs: Any, timeout: dt.datetime | None = None) -> Any:
        """The arrays that the other process offers as `uuid`, a tree of the types and shardings in `xs`.

        They arrive later, as results of programs do. `timeout` is the time of day until which they are waited for.

        Raises: ArgumentValueError for leaves of `xs` without a sharding.
        """
        leaves, tree = tree_flatten(xs)
        if not leaves:
            return xs
        if bad := [x for x in leaves if getattr(x, "sharding", None) is None]:
            raise ArgumentValueError(
                "pull needs a sharding of each array.",
                got=f"{bad[0]!r}",
                do="Describe them by `ShapeDtypeStruct(shape, dtype, sharding=...)`.",
            )
        client = next(iter(leaves[0].sharding.device_set)).client
        options = {} if timeout is None else {"timeout": timeout}
        return tree.unflatten(self._connection._pull_flat(uuid, client, leaves, **options))


class TransferServer:
    """The side of this process from which others pull arrays, which `start_transfer_server` makes.

    >>> start_transfer_server(pl.devices()[0].client, "127.0.0.1:0").address().startswith("127.0.0.1:")
    True
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    def address(self) -> str:
        """The address by which others connect."""
        return self._server.address()

    def connect(self, address: str) -> TransferConnection:
        """A connection to the server at `address`."""
        return TransferConnection(self._server.connect(address))

    def await_pull(self, uuid: int, arrays: Any, timeout: dt.datetime | None = None) -> None:
        """Offer a tree of `arrays` as `uuid`, to be pulled once."""
        options = {} if timeout is None else {"timeout": timeout}
        self._server._await_pull_flat(uuid, tree_flatten(arrays)[0], **options)


def start_transfer_server(
    client: Client,
    address: str = "[::]:0",
    transport_addresses: Sequence[str] = (),
    max_num_parallel_copies: int = 8,
    transfer_size: int = 256 * 1024 * 1024,
    supports_pinned_allocator: bool = False,
    use_raw_buffers: bool = False,
) -> TransferServer:
    """A server of this process for a client of its devices, at `address`, where port 0 is any that is free.

    `transport_addresses` are those that data goes over; `transfer_size` is the most bytes of one piece. The protocol has neither
    passwords nor encryption: use it in networks that one trusts.

    >>> server = start_transfer_server(pl.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
    >>> x = pl.numpy.arange(3)
    >>> server.await_pull(7, [x])
    >>> server.connect(server.address()).pull(7, [pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)])
    [Array([0, 1, 2], dtype=int32)]
    """
    start = _require(xla_distributed.start_transfer_server, "start_transfer_server")
    return TransferServer(
        start(
            client, address, list(transport_addresses), max_num_parallel_copies, transfer_size,
            supports_pinned_allocator, use_raw_buffers,
        )
    )  # fmt: skip


def _require(function: Any, name: str) -> Any:
    if function is None:
        raise UnsupportedError(f"this jaxlib was built without what {name} needs.")
    return function


def make_error_array(aval: Any, message: object) -> Any:
    """An array of the type and sharding of `aval` whose use raises an error with `message`.

    >>> x = pl.numpy.zeros(2)
    >>> failed = make_error_array(x, "the peer has gone")
    >>> failed.shape
    (2,)
    """
    client = next(iter(aval.sharding.device_set)).client
    make = _require(xla_distributed.make_error_array, "make_error_array")
    return make(client, aval, str(message))


__all__ = ["TransferConnection", "TransferServer", "make_error_array", "start_transfer_server"]
