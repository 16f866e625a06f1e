"""Command line that answers SQL over a recording in a file.

    python -m pellucid_profiler.sql FILE "select name, sum(dur) as ns from slice group by name order by ns desc limit 5"

The file is a session (`session.save`), what XLA's profiler wrote (`*.xplane.pb`, or the folder of a trace), or any trace that
Perfetto reads. Times are nanoseconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid_profiler.queries import query, query_trace
from pellucid_profiler.recordings import read_xspace
from pellucid_profiler.session import load


def query_file(path: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of a query over the recording at `path`: table `slice` has operations and spans, `track` devices and threads.

    Raises: FileNotFoundError; ArgumentValueError for SQL that fails, and for a damaged file; UnsupportedError for a Perfetto
    trace where Perfetto's program isn't installed.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir() or path.suffix == ".pb":
        return query(read_xspace(path), sql)
    if zipfile.is_zipfile(path):
        return query(load(path), sql)
    return query_trace(path, sql)


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as lines of text with aligned columns, numbers on the right.

    >>> print(as_table([{"name": "tanh", "ns": 1200}, {"name": "dot", "ns": None}]))
    name    ns
    tanh  1200
    dot   null
    """
    if not rows:
        return "(no rows)"
    columns = [
        [name, *("null" if row[name] is None else str(row[name]) for row in rows)]
        for name in rows[0]
    ]
    widths = [max(map(len, column)) for column in columns]
    on_right = [isinstance(value, (int, float)) for value in rows[0].values()]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, on_right, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pellucid_profiler.sql",
        description="Answer SQL over a recording: a saved session, an XSpace file or folder, or a Perfetto trace.",
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("query", help="SQL; a single - reads it from the standard input")
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table")
    options = parser.parse_args(arguments)
    text = sys.stdin.read() if options.query == "-" else options.query
    try:
        rows = query_file(options.file, text)
    except (ArgumentValueError, UnsupportedError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.format == "table":
        sys.stdout.write(f"{as_table(rows)}\n")
    elif options.format == "json":
        sys.stdout.write(f"{json.dumps(rows)}\n")
    elif rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
