"""Command line that records another process, which must have called `pl.profiler.start_server(port)`.

    python -m pellucid_profiler.collect_profile PORT MILLISECONDS [--log_dir FOLDER] [--host HOST]

The recorded process writes the file itself, into FOLDER on its own machine, in the layout that XProf opens.
`pl.profiler.read_xspace(path)` reads the file as a session.
Fields (openxla/xla, tsl/profiler/protobuf): ProfileRequest duration_ms 1, opts 4, repository_root 5, session_id 6,
host_name 7; ProfileOptions host_tracer_level 2, device_tracer_level 3, python_tracer_level 4, version 5, enable_hlo_proto 7, duration_ms 9.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid.introspect.protobuf import message_field, number_field
from pellucid_profiler.files import local_folder

METHOD = "/tensorflow.ProfilerService/Profile"
ANSWER_SECONDS = 60
"""Timeout in seconds for the process to write its recording, added to the recording's duration."""
TRACE_EVERYTHING, OPTIONS_VERSION = 2, 1


def collect_profile(
    port: int,
    duration_in_ms: int,
    host: str = "localhost",
    log_dir: os.PathLike[str] | str | None = None,
    *,
    python: bool = False,
    host_level: int = TRACE_EVERYTHING,
    device_level: int = 1,
) -> Path:
    """Records the process whose profiler server listens on `host:port`, and returns the path of the file that it wrote.

    `log_dir` (by default the current folder) is a folder of that process's machine. `python` also records calls of
    Python functions. `host_level` is 0 for nothing of the host to 3 for everything, `device_level` 0 for nothing of devices.

    Raises: UnsupportedError without the package grpcio; ArgumentValueError if no server answers or it is already
    recording, or for an address as `log_dir`; FileNotFoundError if the file can't be read from this machine.

    >>> collect_profile(1, 10)
    Traceback (most recent call last):
    ...
    pellucid.errors.ArgumentValueError: no profiler server gives a profile on localhost:1...
    """
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError as error:
        raise UnsupportedError(
            "collect_profile can't reach another process: the package grpcio is not installed.",
            do="Install it: pip install 'pellucid[collect]'.",
        ) from error
    root = local_folder(log_dir or ".").absolute() / "plugins" / "profile"
    session = time.strftime("%Y_%m_%d_%H_%M_%S")
    options = (
        number_field(2, host_level) + number_field(3, device_level) + number_field(4, int(python))
        + number_field(5, OPTIONS_VERSION) + number_field(7, 1) + number_field(9, duration_in_ms)
    )  # fmt: skip
    request = number_field(1, duration_in_ms) + message_field(4, options)
    for number, text in ((5, str(root)), (6, session), (7, host)):
        request += message_field(number, text.encode())
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            channel.unary_unary(METHOD)(request, timeout=duration_in_ms / 1e3 + ANSWER_SECONDS)
        except grpc.RpcError as error:
            raise ArgumentValueError(
                f"no profiler server gives a profile on {host}:{port}.",
                got=str(error.details()),  # pyright: ignore[reportAttributeAccessIssue]
                do=f"Call `profiler.start_server({port})` in the process, and record it once at a time.",
            ) from None
    path = root / session / f"{host}.xplane.pb"
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: the process on {host}:{port} wrote its recording into this folder of its own machine"
        )
    return path


def main(
    arguments: Sequence[str] | None = None, command: str = "pellucid_profiler.collect_profile"
) -> int:
    """Runs the command line and gives its exit status; `command` is the module that its help names.

    It takes what the reference's command takes. Links to Perfetto's page are not made, with or without `--no_perfetto_link`.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {command}",
        description="Record a running process, in which `profiler.start_server(port)` was called.",
    )
    parser.add_argument("port", type=int)
    parser.add_argument("duration_in_ms", type=int)
    parser.add_argument("--log_dir", help="folder of the process, by default the current one")
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--python", action="store_true", help="also calls of Python functions")
    parser.add_argument("--python_tracer_level", type=int, default=0, help="1 is --python")
    parser.add_argument("--host_tracer_level", type=int, default=TRACE_EVERYTHING)
    parser.add_argument("--device_tracer_level", type=int, default=1)
    parser.add_argument("--no_perfetto_link", action="store_true", help="no link is made anyway")
    options = parser.parse_args(arguments)
    try:
        path = collect_profile(
            options.port,
            options.duration_in_ms,
            options.host,
            options.log_dir,
            python=options.python or options.python_tracer_level > 0,
            host_level=options.host_tracer_level,
            device_level=options.device_tracer_level,
        )
    except (ArgumentValueError, UnsupportedError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
