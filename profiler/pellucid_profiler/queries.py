"""SQL over sessions, by Perfetto's Trace Processor."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.introspect.errors import ArgumentValueError, UnsupportedError
from pellucid_profiler.perfetto import save_perfetto

if TYPE_CHECKING:
    from pellucid_profiler.session import Session

PROGRAM = "trace_processor_shell"
VARIABLE = "PELLUCID_TRACE_PROCESSOR"
"""Environment variable with the path of the program, where it isn't on the PATH."""


def query(session: Session, sql: str) -> list[dict[str, Any]]:
    """Rows of a query over the session's Perfetto trace: table `slice` has its operations and spans.

    Raises: UnsupportedError without the package perfetto, or without the program `trace_processor_shell`, which nothing
    is downloaded for; ArgumentValueError for SQL that fails.
    """
    try:
        module: Any = importlib.import_module("perfetto.trace_processor")
    except ImportError as error:
        raise UnsupportedError(
            "a session can't be queried: the package perfetto is not installed.",
            do="Install it: pip install perfetto.",
        ) from error
    program = os.environ.get(VARIABLE) or shutil.which(PROGRAM)
    if program is None or not Path(program).is_file():
        raise UnsupportedError(
            f"a session can't be queried: the program {PROGRAM} is not there.",
            got=f"{VARIABLE}={program}" if program else f"no {PROGRAM} on the PATH",
            do=f"Get it from Perfetto's releases, and set {VARIABLE} to its path.",
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.pftrace"
        save_perfetto(session, path)
        config = module.TraceProcessorConfig(bin_path=program)
        with module.TraceProcessor(trace=str(path), config=config) as processor:
            try:
                rows = processor.query(sql)
            except module.TraceProcessorException as error:
                raise ArgumentValueError(
                    "this SQL fails.",
                    got=str(error),
                    do="`select * from slice limit 1` names columns.",
                ) from None
            return [dict(vars(row)) for row in rows]
