"""The file of a session: a zip archive of its columns as arrays, and of the rest as JSON."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.files import SEAL_BYTES, check_seal
from pellucid.introspect.schema import SourceRecord
from pellucid_profiler.callbacks import CallbackRow
from pellucid_profiler.calls import HostSpans, LaunchColumns
from pellucid_profiler.collectives import Collectives
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.counters import Counters
from pellucid_profiler.files import seal_file, whole_file
from pellucid_profiler.live_arrays import HeapRow, LiveArrays
from pellucid_profiler.live_buffers import LiveBuffer, ProgramMemory
from pellucid_profiler.operations import Operations
from pellucid_profiler.peaks import Peaks
from pellucid_profiler.session_data import SessionData
from pellucid_profiler.sources import ProgramInfo, SourceLine
from pellucid_profiler.transfers import Transfer
from pellucid_profiler.xspace import Column

S = TypeVar("S", bound=SessionData)

FORMAT = 6
"""Version of the file format; increased when the meaning of saved arrays or texts changes."""

_TABLES: dict[str, Any] = {
    "operations": Operations,
    "calls": LaunchColumns,
    "spans": HostSpans,
    "collectives": Collectives,
    "live_arrays": LiveArrays,
    "counters": Counters,
}
"""Fields of a session that are tables of columns, with the class of each."""


def save_session(session: SessionData, path: str | os.PathLike[str]) -> None:
    """Writes a session into one file. Raises: OSError, and the file that was there stays as it was."""
    texts = {
        "format": FORMAT,
        "names": session.names,
        "threads": session.threads,
        "begin_unix_ns": session.begin_unix_ns,
        "wall_ns": session.wall_ns,
        "compilations": session.compilations,
        "transfers": session.transfers,
        "callbacks": session.callbacks,
        "heap": session.heap,
        "remarks": session.remarks,
        "peaks": session.peaks,
        "is_detail": session.is_detail,
        "memory": [*session.memory.items()],
        "sources": [source.to_dict() for source in session.sources.values()],
        "programs": [[key, program.to_json()] for key, program in session.programs.items()],
    }
    with (
        whole_file(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.comment = bytes(SEAL_BYTES)
        archive.writestr("session.json", json.dumps(texts))
        for table in _TABLES:
            columns = getattr(session, table)
            for name in [each.name for each in fields(columns)]:
                column: Column = getattr(columns, name)
                with archive.open(f"{table}.{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, column, allow_pickle=False)
        archive.close()
        seal_file(part)


def read_session(kind: type[S], path: str | os.PathLike[str]) -> S:
    """The session in a file, as an object of class `kind`.

    Raises: ArgumentValueError for a file that is no whole session, FileNotFoundError.
    """
    content = Path(path).read_bytes()
    try:
        check_seal(content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            texts = json.loads(archive.read("session.json"))
            tables = {
                table: kind(**{
                    field.name: np.lib.format.read_array(
                        io.BytesIO(archive.read(f"{table}.{field.name}.npy")), allow_pickle=False
                    )
                    for field in fields(kind)
                })
                for table, kind in _TABLES.items()
            }  # fmt: skip
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ArgumentValueError(
            "this file is no whole session of the profiler.",
            got=f"{os.fspath(path)}: {error}",
            do="Save the session again with `session.save(path)`.",
        ) from None
    if texts["format"] != FORMAT:
        raise ArgumentValueError(
            "this session was saved by another version of the profiler.",
            got=f"{os.fspath(path)}: format {texts['format']}, this version reads {FORMAT}",
        )
    programs = {key: ProgramInfo.from_json(value) for key, value in texts["programs"]}
    return kind(
        names=texts["names"], compilations=[Compilation(*row) for row in texts["compilations"]],
        threads=texts["threads"], programs=programs,
        transfers=[Transfer(*_restore_line(row, 3)) for row in texts["transfers"]],
        callbacks=[CallbackRow(*_restore_line(row, 1)) for row in texts["callbacks"]],
        heap=[HeapRow(*_restore_line(row, 0)) for row in texts["heap"]],
        remarks=texts["remarks"],
        is_detail=texts["is_detail"],
        peaks=texts["peaks"] and Peaks(*texts["peaks"]),
        memory={
            key: ProgramMemory(names, live, peak, [LiveBuffer(*each) for each in buffers], allocated)
            for key, (names, live, peak, buffers, allocated) in texts["memory"]
        },
        begin_unix_ns=texts["begin_unix_ns"], wall_ns=texts["wall_ns"],
        sources={each["path"]: SourceRecord(**each) for each in texts["sources"]}, **tables,
    )  # fmt: skip


def _restore_line(row: list[Any], at: int) -> list[Any]:
    """A saved row with its entry `at`, a saved source line or None, restored."""
    return [*row[:at], row[at] and SourceLine(*row[at]), *row[at + 1 :]]
