"""Reads recordings from files: of `trace`, `collect_profile`, and other programs that use XLA's recorder."""

from __future__ import annotations

import os
from pathlib import Path

from pellucid.introspect import recording
from pellucid.introspect.protobuf import fields
from pellucid_profiler.conversion import Observed, session_of
from pellucid_profiler.files import read_recording
from pellucid_profiler.live_buffers import ProgramMemoryReader, assigned_bytes
from pellucid_profiler.session import Session
from pellucid_profiler.xspace import hlo_protos

_SUFFIX = ".xplane.pb"


def read_xspace(path: os.PathLike[str] | str) -> Session:
    """Reads a recording from a file, or the latest one in a folder written by `trace`, as a session.

    Lines and costs are available if the file contains the programs' HLO, as those of `trace`, `collect_profile` and JAX
    do.

    Raises: ArgumentValueError if the file is no recording; FileNotFoundError if the folder contains none.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with pl.profiler.trace(folder):
    ...     y = jnp.sin(1.0)
    >>> len(read_xspace(folder).calls)
    1
    """
    file = Path(path)
    if file.is_dir():
        files = sorted(file.rglob(f"*{_SUFFIX}"), key=lambda each: each.stat().st_mtime)
        if not files:
            raise FileNotFoundError(f"{file}: no file *{_SUFFIX} is in this folder")
        file = files[-1]
    content = read_recording(file)
    return session_of(content, lambda _: _recorded_programs(content), Observed())


def _recorded_programs(content: bytes) -> dict[int, ProgramMemoryReader]:
    protos = hlo_protos(content).items()
    return {number: ProgramMemoryReader(RecordedModule(proto)) for number, proto in protos}


class RecordedModule:
    """A program whose HLO is contained in a recording.

    Fields (openxla/xla, hlo.proto): HloProto hlo_module 1, buffer_assignment 3; HloModuleProto name 1.
    """

    executable = None

    def __init__(self, proto: bytes) -> None:
        parts = {number: proto[at:end] for number, _, at, end in fields(proto, 0, len(proto))}
        self._module, self._assignment = parts.get(1, b""), parts.get(3, b"")

    @property
    def name(self) -> str:
        """Name of the module: `jit_f` for a jitted function `f`."""
        module = self._module
        return next(
            module[at:end].decode() for n, _, at, end in fields(module, 0, len(module)) if n == 1
        )

    def proto(self) -> bytes:
        """The module as a serialized HloModuleProto."""
        return self._module

    def text(self) -> str:
        """The module as HLO text with metadata."""
        return recording.hlo_text(self._module)

    def origins(self) -> None:
        """None: the source lines are in the HLO text itself."""

    def buffer_assignment(self) -> bytes:
        """The buffer assignment as a serialized BufferAssignmentProto; empty if there is none."""
        return self._assignment

    def allocated_bytes(self) -> int:
        """Total bytes that XLA allocates for one run."""
        return assigned_bytes(self._assignment)
