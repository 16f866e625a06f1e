"""Magics of notebooks: `%pellucid` for devices, memory, processes, misses; `%%profile` for a cell's time."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

if TYPE_CHECKING:
    from pellucid_kernel.shell import ShellExtension

_USAGE = """%pellucid devices [N]   number of virtual CPU devices; with N, set it before a device is used
%pellucid memory        devices and live arrays, with who holds them
%pellucid processes     processes of one job; with N [DEVICES], start them for %%px; `stop` ends them
%pellucid misses [N]    why functions were traced and compiled, the newest first
%pellucid as_jax        answer `import jax` by pellucid, for libraries that are written for jax
%pellucid traceback     the whole traceback of the last error
%pellucid figures interactive|static|auto
                        whether the HTML of figures holds the viewer, for front ends without the extension"""


@magics_class
class PellucidMagics(Magics):
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell, extension: ShellExtension) -> None:
        super().__init__(shell)
        self._shell = shell
        self._extension = extension
        self._running: Any = None

    @line_magic
    def pellucid(self, line: str) -> Any:
        """Devices, memory, misses, tracebacks and figures; without an argument, what there is."""
        word, *rest = line.split() or [""]
        commands = {
            "devices": self._devices,
            "memory": self._memory,
            "processes": self._processes,
            "misses": self._misses,
            "as_jax": self._as_jax,
            "traceback": self._traceback,
            "figures": self._figures,
        }
        if word not in commands:
            if word:
                raise UsageError(f"%pellucid knows no {word!r}.\n{_USAGE}")
            print(_USAGE)  # noqa: T201
            return None
        return commands[word](*rest)

    @cell_magic
    def profile(self, line: str, cell: str) -> Any:
        """Profile of the cell: where its time goes by line and operation. `%%profile -r 5` runs it five times.

        A cell that compiles is run once more, and the second run is the profile: what is compiled once is no part of
        a program's time. `%%profile -r 1` gives the first run.
        """
        option = re.fullmatch(r"(?:-r\s*([1-9]\d*))?", line.strip())
        if option is None:
            raise UsageError(f"%%profile takes `-r N`, a number of runs, not {line!r}.")
        values: list[Any] = []
        with self._shell.display_trap:
            show, sys.displayhook = sys.displayhook, values.append  # each run has a value
            try:
                recorded = self._recorded(cell, int(option[1] or 1))
                if recorded is not None and option[1] is None and recorded.compilations:
                    recorded = self._recorded(cell, 1)
            finally:
                sys.displayhook = show
            if values:
                show(values[-1])
        return recorded

    def _recorded(self, cell: str, runs: int) -> Any:
        """The profile of some runs of a cell; None if one fails."""
        # An empty line keeps the numbers of the cell's lines.
        source, cell_id = "\n" + cell, self._extension.cells.running_id
        profile = importlib.import_module("pellucid_profiler").profile
        with profile(lines=True) as recorded:
            for _ in range(runs):
                if not self._shell.run_cell(source, cell_id=cell_id).success:
                    return None
        return recorded

    def _devices(self, count: str | None = None, *_: str) -> int | None:
        if count is None:
            return importlib.import_module("pellucid").device_count()
        if not count.isdecimal() or int(count) < 1:
            raise UsageError(f"%pellucid devices takes a whole number from 1 on, not {count!r}.")
        # Read when the core is imported; an imported core is told by itself.
        if "pellucid.wiring" in sys.modules:
            importlib.import_module("pellucid.introspect").set_cpu_device_count(int(count))
        os.environ["PELLUCID_NUM_CPU_DEVICES"] = count
        return None

    def _memory(self, *_: str) -> Any:
        return _viz().memory()

    def _misses(self, count: str = "20", *_: str) -> Any:
        return _viz().misses(int(count))

    def _as_jax(self, *_: str) -> None:
        importlib.import_module("pellucid.as_jax").install()

    def _processes(self, *words: str) -> Any:
        if not words:
            return self._running
        processes = importlib.import_module("pellucid_kernel.processes")
        counts = None if words == ("stop",) else processes.counts(words)
        if self._running is not None:
            self._running.stop()
            self._running = None
        if counts is not None:
            self._running = processes.Processes(*counts)
        return self._running

    def _traceback(self, *_: str) -> None:
        self._extension.show_whole_traceback()

    def _figures(self, form: str = "") -> None:
        forms = {"interactive": True, "static": False, "auto": None}
        if form not in forms:
            raise UsageError(f"%pellucid figures takes one of {', '.join(forms)}, not {form!r}.")
        _viz().Figure.has_scripts = forms[form]


def _viz() -> Any:
    """The figures, which load the core."""
    return importlib.import_module("pellucid_viz")
