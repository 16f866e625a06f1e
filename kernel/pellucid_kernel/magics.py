"""Notebook magics: `%pellucid` for devices, memory, processes and cache misses; `%%profile` for a cell's time."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import sys
import time
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
        """Shows devices, memory, cache misses, tracebacks and figures; without an argument, lists the subcommands."""
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
        """Profiles the cell: time by line and operation. `%%profile -r 5` runs it five times.

        A cell that compiles is run a second time, if that takes less than 5 s, so that the profile doesn't contain
        compilation. In a loop of many steps only some are recorded, after those that compile and for at least half a
        second; the rest of the cell runs unrecorded. `%%profile -r 1` records the whole first run.

        The cell succeeds or fails as it would without profiling. If something can't be recorded, the profile says so,
        or is missing.
        """
        option = re.fullmatch(r"(?:-r\s*([1-9]\d*))?", line.strip())
        if option is None:
            raise UsageError(f"%%profile can only take `-r N`, a number of runs, not {line!r}.")
        values: list[Any] = []
        with self._shell.display_trap:
            show, sys.displayhook = sys.displayhook, values.append  # each run has a value
            try:
                runs = None if option[1] is None else int(option[1])
                recorded, seconds = self._record(cell, runs)
                if runs is None and recorded is not None and _is_warm_up(recorded, seconds):
                    recorded = self._warm(cell, recorded)
            finally:
                sys.displayhook = show
            if values:
                show(values[-1])
        return recorded

    def _record(self, cell: str, runs: int | None) -> tuple[Any, float]:
        """(profile of the runs of a cell, seconds that they took). With `runs=None`: one run, or some steps of its
        loop.

        The profile is None if another session is being recorded. Raises: any exception of the cell, after it was shown.
        """
        recorder = importlib.import_module("pellucid_profiler.recorder")
        limit = recorder.StepLimit() if runs is None else None
        recorded, error = recorder.Profile(lines=True, limit=limit, gives_way=True), None
        try:
            recorded.__enter__()
        except recorder.RecordingStateError as refused:
            print(f"There is no profile: {refused}", file=sys.stderr)  # noqa: T201
            recorded = None
        start = time.perf_counter()
        try:
            for _ in range(runs or 1):
                error = self._run(cell)
                if error is not None:
                    break
            seconds = time.perf_counter() - start
            is_short = runs is None and error is None and seconds < _SHORT_RUN_SECONDS
            if is_short and recorded is not None and not recorded.is_stopped:
                recorded.add_remark(
                    f"One run of {seconds * 1e3:.2g} ms varies from run to run: `%%profile -r {_runs_for(seconds)}` "
                    "records more, which the cell's variables go through, too."
                )
        finally:
            if recorded is not None:
                recorded.__exit__(None if error is None else type(error), error, None)
        if error is not None:
            self._shown_already(error)
            raise error
        return recorded, seconds

    def _warm(self, cell: str, first: Any) -> Any:
        """The profile of a second run of a cell, which doesn't compile; the `first` profile if the second run fails."""
        shell: Any = self._shell
        failed: list[BaseException] = []
        shell.showtraceback = lambda *_, **__: None
        shell.showsyntaxerror = lambda *_, **__: None
        try:
            return self._record(cell, None)[0]
        except Exception as error:
            failed.append(error)
        finally:
            shell.__dict__.pop("showtraceback", None)
            shell.__dict__.pop("showsyntaxerror", None)
        print(  # noqa: T201
            "This is the profile of the first run, with all that it compiled. The cell can't run twice: "
            f"{type(failed[0]).__name__}: {failed[0]}",
            file=sys.stderr,
        )
        return first

    def _run(self, cell: str) -> BaseException | None:
        """Runs the body once as a cell of its own. Shows the exception it raises, and returns it."""
        shell: Any = self._shell
        # The magic's line is replaced by an empty line, so that line numbers stay; another cell magic must be on the
        # first line.
        source = cell if cell.startswith("%%") else "\n" + cell
        runner, shell.loop_runner = shell.loop_runner, _run_beside
        try:
            result = shell.run_cell(source, cell_id=self._extension.cells.running_id)
        finally:
            shell.loop_runner = runner
        return result.error_before_exec or result.error_in_exec

    def _shown_already(self, error: BaseException) -> None:
        """Prevents the shell from showing `error` a second time when the cell of the magic fails with it."""
        shell: Any = self._shell
        show = shell.showtraceback

        def show_others(*args: Any, **options: Any) -> None:
            shell.__dict__.pop("showtraceback", None)
            if sys.exc_info()[1] is not error:
                show(*args, **options)

        shell.showtraceback = show_others

    def _devices(self, count: str | None = None, *_: str) -> int | None:
        if count is None:
            return importlib.import_module("pellucid").device_count()
        if not count.isdecimal() or int(count) < 1:
            raise UsageError(f"%pellucid devices takes a whole number from 1 on, not {count!r}.")
        # The environment variable is read when pellucid is imported; afterwards the option is set directly.
        if "pellucid.wiring" in sys.modules:
            importlib.import_module("pellucid.introspect").set_cpu_device_count(int(count))
        os.environ["PELLUCID_NUM_CPU_DEVICES"] = count
        return None

    def _memory(self, *_: str) -> Any:
        return _viz().memory()

    def _misses(self, count: str = "20", *_: str) -> Any:
        return _viz().misses(int(count))

    def _as_jax(self, version: str | None = None, *_: str) -> None:
        importlib.import_module("pellucid.as_jax").install(version)

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


_MAX_SECONDS_AGAIN = 5.0
"""Maximum duration, without compilation, of a run that is repeated because it compiled."""
_SHORT_RUN_SECONDS = 0.01
"""Below this duration, the profile of a single run suggests more runs."""
_SUGGESTED_SECONDS, _MAX_SUGGESTED_RUNS = 0.1, 60
"""Total duration of the suggested runs, and their maximum number."""


def _runs_for(seconds: float) -> int:
    """Suggested number of runs, if each takes `seconds`."""
    return min(_MAX_SUGGESTED_RUNS, max(2, round(_SUGGESTED_SECONDS / seconds)))


def _is_warm_up(recorded: Any, seconds: float) -> bool:
    """Whether to profile another run of the cell instead: the first compiled, and was short."""
    if recorded.is_cut or recorded.gave_way:
        return False
    compilations = recorded.compilations
    seconds -= sum(each.seconds for each in compilations)
    return (recorded.has_begun_again or bool(compilations)) and seconds < _MAX_SECONDS_AGAIN


def _run_beside(coroutine: Any) -> Any:
    """Runs a coroutine in its own event loop: the kernel's loop is busy with the cell of the magic."""
    around, loop = asyncio._get_running_loop(), asyncio.new_event_loop()
    asyncio._set_running_loop(None)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
        asyncio._set_running_loop(around)


def _viz() -> Any:
    """The module of figures, whose import loads pellucid's core."""
    return importlib.import_module("pellucid_viz")
