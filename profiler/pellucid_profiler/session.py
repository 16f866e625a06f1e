"""A recorded session: its data and tables, and what is made of them: records, reports, figures, files of other tools."""

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
    """A recording, joined to programs. Rows of `operations` name their instruction and program by number.

    `lines`, `by_operation`, `by_category` and `by_scope` are the same seconds, cut in other ways.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> session = recorded.wait()
    >>> isinstance(session, pl.profiler.Session), len(session.calls)
    (True, 1)
    """

    # Figures ---------------------------------------------------------------------------------------

    def record(self) -> ProfileRecord:
        """The session as front ends draw it."""
        return profile_record(self)

    def report(self) -> str:
        """Where time went, as text."""
        return report(self)

    def to_html(self) -> str:
        """The session as static HTML: no scripts, no kernel, no network."""
        return session_html(self)

    def diff(self, later: Session) -> Comparison:
        """Which lines became slower or faster in a later session."""
        is_session = isinstance(later, Session)  # pyright: ignore[reportUnnecessaryIsInstance]  # a Profile waits
        return compare(self, later if is_session else later.wait())

    # Other tools -----------------------------------------------------------------------------------

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Executed operations as columns [n]: what ran, where, when, and for how long, in nanoseconds."""
        return columns(self)

    def to_pandas(self) -> Any:
        """`columns` as a DataFrame of pandas."""
        return data_frame(self, "pandas", "DataFrame", "pandas")

    def to_polars(self) -> Any:
        """`columns` as a DataFrame of polars."""
        return data_frame(self, "polars", "DataFrame", "polars")

    def to_arrow(self) -> Any:
        """`columns` as a Table of pyarrow."""
        return data_frame(self, "pyarrow", "table", "pyarrow")

    def to_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write time by scope, operation and line into a file, which https://www.speedscope.app opens."""
        save_speedscope(self, path)

    def sql(self, query_text: str) -> list[dict[str, Any]]:
        """Rows of a query over the session's slices: tables `slice` (ts, dur, name, track_id, parent_id, depth) and `track`.

        Perfetto's program `trace_processor_shell` answers where it is installed, with all its tables; else SQLite does.
        """
        return query(self, query_text)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a file which the Perfetto UI opens."""
        save_perfetto(self, path)

    def __repr__(self) -> str:
        return self.report()

    _repr_html_ = to_html

    # Files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session into one file, which `load` reads on any machine.

        A file that can't be written to its end, as on a full disk, leaves the one that was there as it is.
        Raises: OSError.
        """
        save_session(self, path)


def load(path: str | os.PathLike[str]) -> Session:
    """The session that `Session.save` wrote.

    Raises: ArgumentValueError for a file that is no whole session, FileNotFoundError.

    >>> import tempfile
    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> path = tempfile.mkstemp(suffix=".plprof")[1]
    >>> recorded.save(path)
    >>> len(load(path).calls)
    1
    """
    return read_session(Session, path)
