"""`Session`: a recorded session with its data and tables, and its conversions to records, reports, figures and other tools."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

from pellucid_profiler.comparison import Comparison, compare
from pellucid_profiler.exports import columns, data_frame, save_speedscope
from pellucid_profiler.markup import session_html
from pellucid_profiler.perfetto import save_perfetto
from pellucid_profiler.queries import query
from pellucid_profiler.record import profile_record
from pellucid_profiler.report import report
from pellucid_profiler.schema import ProfileRecord
from pellucid_profiler.session_file import read_session, save_session
from pellucid_profiler.session_tables import SessionTables


class Session(SessionTables):
    """A recording joined to its programs. Rows of `operations` refer to instructions and programs by number.

    `lines`, `by_operation`, `by_category` and `by_scope` divide the same total time in different ways.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> session = recorded.wait()
    >>> isinstance(session, pl.profiler.Session), len(session.calls)
    (True, 1)
    """

    # Views ---------------------------------------------------------------------------------------------

    def record(self) -> ProfileRecord:
        """The session as the record that front ends display."""
        return profile_record(self)

    def report(self) -> str:
        """The session as text: totals, findings, lines and operations."""
        return report(self)

    def to_html(self) -> str:
        """The session as static HTML, without scripts, kernel or network."""
        return session_html(self)

    def diff(self, later: Session) -> Comparison:
        """Compares this session with a later one, line by line."""
        is_session = isinstance(later, Session)  # pyright: ignore[reportUnnecessaryIsInstance]  # a Profile waits
        return compare(self, later if is_session else later.wait())

    # Other tools -----------------------------------------------------------------------------------

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Executed operations as columns of length n: names, lines, devices, and times in nanoseconds."""
        return columns(self)

    def to_pandas(self) -> Any:
        """`columns` as a pandas DataFrame."""
        return data_frame(self, "pandas", "DataFrame", "pandas")

    def to_polars(self) -> Any:
        """`columns` as a polars DataFrame."""
        return data_frame(self, "polars", "DataFrame", "polars")

    def to_arrow(self) -> Any:
        """`columns` as a pyarrow Table."""
        return data_frame(self, "pyarrow", "table", "pyarrow")

    def to_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Writes time by scope, operation and line to a file for https://www.speedscope.app."""
        save_speedscope(self, path)

    def sql(self, query_text: str) -> list[dict[str, Any]]:
        """Runs an SQL query over the session: tables `slice` (ts, dur, name, track_id, parent_id, depth) and `track`.

        If Perfetto's `trace_processor_shell` is installed, it answers, with all its tables; otherwise SQLite does.
        """
        return query(self, query_text)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace file that the Perfetto UI opens."""
        save_perfetto(self, path)

    def __repr__(self) -> str:
        return self.report()

    _repr_html_ = to_html

    # Files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the session to one file, which `load` can read on any machine.

        The write is atomic: if it fails, an existing file stays unchanged.
        Raises: OSError.
        """
        save_session(self, path)


def load(path: str | os.PathLike[str]) -> Session:
    """Reads a session that `Session.save` wrote.

    Raises: ArgumentValueError if the file is damaged or no session; FileNotFoundError.

    >>> import tempfile
    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> path = tempfile.mkstemp(suffix=".plprof")[1]
    >>> recorded.save(path)
    >>> len(load(path).calls)
    1
    """
    return read_session(Session, path)
