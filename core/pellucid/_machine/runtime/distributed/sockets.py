"""Finds the connections of gloo among those of this process, to shut them down.

A collective over gloo waits forever for an unresponsive process, and devices of one process wait for each other if a
connection of one of them broke. Shutting down all connections makes the collective fail everywhere.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
Address = tuple[str, int]


def listening_while(make: Callable[[], T], host: str) -> tuple[T, Address | None]:
    """(result of `make()`, the address at `host` at which it began to listen)."""
    before = _listening()
    result = make()
    new = (address for address in _listening() - before if address[0] == host)
    return result, next(new, None)


def cut(here: Address, there: set[Address]) -> int:
    """End receiving on the connections at `here`, and on those to any of `there`; returns their number.

    Gloo closes a connection when it reads its end. A thread that was sending would fail and then wait forever, so
    sending stays possible.
    """
    n_cut = 0
    for open_socket in _tcp_sockets():
        try:
            local, remote = open_socket.getsockname()[:2], open_socket.getpeername()[:2]
            if local == here or remote in there:
                open_socket.shutdown(socket.SHUT_RD)
                n_cut += 1
        except OSError:  # listening, or closed meanwhile
            continue
    return n_cut


def _listening() -> set[Address]:
    return {
        open_socket.getsockname()[:2]
        for open_socket in _tcp_sockets()
        if open_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }


def _tcp_sockets() -> Iterator[socket.socket]:
    """This process's TCP sockets, each as a duplicate that lives until the next one is requested."""
    for name in os.listdir("/dev/fd"):
        try:
            number = os.dup(int(name))
        except OSError:  # the descriptor of the directory listing, closed by now
            continue
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            os.close(number)
            continue
        with socket.socket(fileno=number) as duplicate:
            if duplicate.family in _INTERNET and duplicate.type == socket.SOCK_STREAM:
                yield duplicate


_INTERNET: set[Any] = {socket.AF_INET, socket.AF_INET6}
