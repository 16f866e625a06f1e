"""SQL queries over sessions, answered by Perfetto's Trace Processor if installed, else by SQLite over the same slices."""

from __future__ import annotations

import importlib
import os
import shutil
import sqlite3
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid_profiler.calls import nesting
from pellucid_profiler.marks import shown_name
from pellucid_profiler.perfetto import save_perfetto, tracks_of
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.xspace import ABSENT

PROGRAM = "trace_processor_shell"
VARIABLE = "PELLUCID_TRACE_PROCESSOR"
"""Environment variable with the path of Trace Processor, if it isn't on the PATH."""
_TABLES = """
create table track (id integer primary key, name text);
create table slice (
    id integer primary key, ts integer, dur integer, track_id integer, name text, parent_id integer, depth integer
);
"""
"""Perfetto's tables, with the columns that a session can fill. Times are in nanoseconds."""


def query(session: SessionTables, sql: str) -> list[dict[str, Any]]:
    """Runs an SQL query over a session: table `slice` has operations and spans, `track` has devices and threads.

    Raises: UnsupportedError if `PELLUCID_TRACE_PROCESSOR` is set, but names no file or the package perfetto is not
    installed for it; ArgumentValueError if the SQL fails.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> query(recorded.wait(), "select count(*) > 0 as ran from slice")
    [{'ran': 1}]
    """
    processor = _processor("a session can't be queried")
    if processor is None:
        return _query_sqlite(session, sql)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.pftrace"
        save_perfetto(session, path)
        return _query_processor(processor, path, sql)


def query_trace(path: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of a query over a file that Perfetto reads, by its program alone.

    Raises: UnsupportedError where the program or the package perfetto isn't installed; ArgumentValueError for SQL that fails.
    """
    processor = _processor("a Perfetto trace can't be queried")
    if processor is None:
        raise UnsupportedError(
            f"a Perfetto trace is queried by Perfetto's own {PROGRAM}, which isn't here.",
            got=str(path),
            do=f"Install the package perfetto, and name the program in {VARIABLE}. Sessions (`session.save(path)`) and "
            "XSpace files need neither.",
        )
    return _query_processor(processor, path, sql)


def _processor(failure: str) -> tuple[Any, str] | None:
    """Perfetto's module and the path of its program, where both are installed."""
    program = os.environ.get(VARIABLE) or shutil.which(PROGRAM)
    try:
        module: Any = importlib.import_module("perfetto.trace_processor")
    except ImportError:
        module = None
    if os.environ.get(VARIABLE) and (module is None or not Path(str(program)).is_file()):
        raise UnsupportedError(
            f"{failure} by the program that {VARIABLE} names.",
            got="the package perfetto is not installed" if module is None else f"no file {program}",
            do=f"Install perfetto and {PROGRAM}, or unset the variable: SQLite answers then.",
        )
    return None if program is None or module is None else (module, program)


def _query_processor(processor: tuple[Any, str], path: Path, sql: str) -> list[dict[str, Any]]:
    module, program = processor
    config = module.TraceProcessorConfig(bin_path=program)
    with module.TraceProcessor(trace=str(path), config=config) as opened:
        try:
            rows = opened.query(sql)
        except module.TraceProcessorException as error:
            raise _sql_error(str(error)) from None
        return [dict(row.__dict__) for row in rows]


def _sql_error(error: str) -> ArgumentValueError:
    return ArgumentValueError(
        "this SQL fails.", got=error, do="`select * from slice limit 1` names columns."
    )


_databases: weakref.WeakKeyDictionary[SessionTables, sqlite3.Connection] = (
    weakref.WeakKeyDictionary()
)


def _query_sqlite(session: SessionTables, sql: str) -> list[dict[str, Any]]:
    database = _databases.get(session)
    if database is None:
        database = _databases[session] = _database(session)
    try:
        cursor = database.execute(sql)
        rows = cursor.fetchall()
    except sqlite3.Error as error:
        tables = f"{error}; without Perfetto's {PROGRAM} there are the tables slice and track"
        raise _sql_error(tables) from None
    names = [each[0] for each in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _database(session: SessionTables) -> sqlite3.Connection:
    """An in-memory database with the session's slices and tracks, like those of its Perfetto trace."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.executescript(_TABLES)
    texts = [shown_name(session.sources, name) for name in session.names]
    first = 1
    for track, (name, names, start_ns, end_ns) in enumerate(tracks_of(session), 1):
        database.execute("insert into track values (?, ?)", (track, name))
        order = np.lexsort((-end_ns, start_ns))
        names, start_ns, end_ns = names[order], start_ns[order], end_ns[order]
        parents: list[int] = nesting(np.zeros(len(names), np.int64), start_ns, end_ns).tolist()
        depths: list[int] = []
        for parent in parents:  # an enclosing slice comes before the slices in it
            depths.append(0 if parent == ABSENT else depths[parent] + 1)
        columns = (
            range(first, first + len(names)), start_ns.tolist(), (end_ns - start_ns).tolist(), [track] * len(names),
            [texts[int(i)] for i in names], [None if i == ABSENT else first + i for i in parents], depths,
        )  # fmt: skip
        rows = zip(*columns, strict=True)
        database.executemany("insert into slice values (?, ?, ?, ?, ?, ?, ?)", rows)
        first += len(names)
    database.commit()
    # Read-only, so that no query can change what later queries see.
    database.execute("pragma query_only = on")
    return database
