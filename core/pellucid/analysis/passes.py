"""A program after each pass that changed it: ours over jaxprs, then XLA's over HLO."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.analysis.hlo_program import hlo_state
from pellucid.analysis.links import link, record_of
from pellucid.analysis.programs import jaxpr_program, program
from pellucid.base import config
from pellucid.base.events import Observer, PassFinished, by_tool, observe
from pellucid.higher_order.jitted import jit
from pellucid.higher_order.stages import Lowered
from pellucid.introspect.lineage import equations_by_id
from pellucid.introspect.schema import LadderRecord, LinkRecord, ProgramRecord
from pellucid.ir.jaxpr import Jaxpr
from pellucid.xla import hlo as xla_hlo

_DUMP = re.compile(
    r"module_\d+\.(?P<name>.+?)\.(?:(?P<step>\d{4})\.(?P<passes>.+)|before_optimizations)\.txt"
)
_AFTER = re.compile(r"(?P<pipeline>.+?)\.after_(?P<done>.+?)(?:\.before_.+)?")
_START = "pipeline-start"
"""XLA's word for the state before the first pass of a pipeline."""


@by_tool
def passes(function: Callable[..., Any], *args: Any, with_xla: bool = True) -> LadderRecord:
    """The program of a function for these arguments, then after each pass that changed it, and what came of what.

    The function is lowered anew and, `with_xla`, compiled anew: the compiler writes what its passes change. The record has
    the text of every state, so that one of a large program is large.

    >>> record = passes(lambda x: [x * 2.0, x + 1.0][0], 1.0, with_xla=False)
    >>> record.transformations
    ['', 'remove dead equations', 'StableHLO']
    """
    traced = (function if hasattr(function, "trace") else jit(function)).trace(*args)
    name, steps = traced.fun_name, _Steps()
    with observe(steps):
        lowered = traced.lower()
    states = _States(name, jaxpr_program(traced.jaxpr.jaxpr, name=name, key=f"{name}:0"))
    for title, jaxpr in steps.after:
        state = jaxpr_program(jaxpr, name=name, key=f"{name}:{len(states.programs)}")
        if _content(state) != _content(states.programs[-1]):
            states.add(title, state, link(states.programs[-1], state, title))
    stablehlo = program(lowered, key=f"{name}:stablehlo")
    states.add("StableHLO", stablehlo, link(states.programs[-1], stablehlo, "lower"))
    if with_xla:
        equations = equations_by_id(traced.jaxpr.jaxpr)
        for title, module, text in _xla_states(lowered):
            key = f"{name}:{len(states.programs)}"
            state = hlo_state(module, equations, name=name, key=key, text=text)
            before = states.programs[-1]
            tie = _by_name if before.dialect == "hlo" else link
            states.add(title, state, tie(before, state, title))
    return states.record()


class _States:
    """The states of a program so far."""

    def __init__(self, name: str, first: ProgramRecord) -> None:
        self.name = name
        self.programs, self.titles = [first], [""]
        self.links: list[LinkRecord] = []

    def add(self, title: str, state: ProgramRecord, tie: LinkRecord) -> None:
        """Adds the next state, tied to the one before."""
        self.programs.append(state)
        self.titles.append(title)
        self.links.append(tie)

    def record(self) -> LadderRecord:
        """All of them."""
        return LadderRecord(
            name=self.name, transformations=self.titles, sources=[*range(-1, len(self.programs) - 1)],
            programs=self.programs, links=self.links,
        )  # fmt: skip


class _Steps(Observer):
    """Collects the programs that passes over jaxprs give."""

    def __init__(self) -> None:
        self.after: list[tuple[str, Jaxpr]] = []

    def pass_finished(self, event: PassFinished, /) -> None:
        result = event.after[0] if isinstance(event.after, tuple) else event.after
        if isinstance(result, Jaxpr):
            self.after.append((event.name, result))


def _content(record: ProgramRecord) -> Any:
    """Parts of a record that a pass over jaxprs changes: equations, their operands, and constants."""
    equations = record.equations
    return equations.id, equations.operands, equations.bodies, record.bodies


def _xla_states(lowered: Lowered) -> Iterator[tuple[str, Any, str]]:
    """Title, module and text of each state of XLA's program that differs from the one before."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_pass_re": ".*",
            "xla_dump_hlo_as_text": True,
        }
        with config.enable_compilation_cache(False):
            lowered.compile(compiler_options=options)
        dumps = [each for each in map(_Dump.of, Path(folder).iterdir()) if each is not None]
        last_text = ""
        for dump in sorted(dumps):
            module = xla_hlo.module_from_text(dump.path.read_text())
            text = xla_hlo.program_text(module)
            body = text.partition("\n")[2]  # the first line has the layouts of the entry
            if body != last_text:
                yield dump.title, module, text
            last_text = body


class _Dump(NamedTuple):
    """A file that XLA wrote between two passes."""

    step: int
    title: str
    path: Path

    @classmethod
    def of(cls, path: Path) -> _Dump | None:
        """The dump in a file; None for a file of another kind."""
        match = _DUMP.fullmatch(path.name)
        if match is None:
            return None
        if match["step"] is None:
            return cls(-1, "HLO", path)
        after = _AFTER.fullmatch(match["passes"])
        if after is None:
            return None
        title = after["done"] if after["done"] != _START else f"in front of {after['pipeline']}"
        return cls(int(match["step"]), title, path)


def _by_name(source: ProgramRecord, target: ProgramRecord, relation: str) -> LinkRecord:
    """Operations of two states of one module that have the same name, which a pass that leaves them keeps."""
    here, there = map(_ids_by_name, (source, target))
    return record_of(
        source, target, relation, ((here[name], there[name]) for name in here.keys() & there.keys())
    )


def _ids_by_name(record: ProgramRecord) -> dict[str, int]:
    names: dict[str, int] = {}
    start = 0
    for row, count in enumerate(record.equations.result_counts):
        if count:
            value = record.equations.results[start]
            names[record.strings[record.values.name[value]]] = record.equations.id[row]
        start += count
    return names
