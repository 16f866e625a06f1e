"""Records of a program after each pass that changed it: passes over jaxprs, then XLA's over HLO."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid._machine.base import Observer, PassFinished, by_tool, config, observe
from pellucid._machine.base.narrowing import is_tuple
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import Lowered
from pellucid._machine.ir import Jaxpr
from pellucid._machine.xla import hlo as xla_hlo
from pellucid.introspect.lineage import equations_by_id
from pellucid.introspect.schema import LadderRecord, LinkRecord, ProgramRecord

from .hlo_program import hlo_state
from .links import link, record_of
from .programs import jaxpr_program, program

_DUMP = re.compile(
    r"module_\d+\.(?P<name>.+?)\.(?:(?P<step>\d{4})\.(?P<passes>.+)|before_optimizations)\.txt"
)
_AFTER = re.compile(r"(?P<pipeline>.+?)\.after_(?P<done>.+?)(?:\.before_.+)?")
_START = "pipeline-start"
"""XLA's name for the state before the first pass of a pipeline."""


MAX_OPERATIONS = 30_000
"""Maximum number of equations, or of operations and parameters, in all states of a record: about 5 MB of JSON with
texts.
"""


@by_tool
def passes(function: Callable[..., Any], *args: Any, with_xla: bool = True) -> LadderRecord:
    """The program of a function for these arguments, and after each pass that changed it, with links between equations.

    The function is lowered again and, if `with_xla`, compiled again with dumps of the passes. If all states of a large
    program have more than `MAX_OPERATIONS` operations together, states that differ little from the one before are left
    out; their passes are then part of the next state's title.

    >>> record = passes(lambda x: [x * 2.0, x + 1.0][0], 1.0, with_xla=False)
    >>> record.transformations
    ['', 'remove dead equations', 'StableHLO']
    """
    traced = (function if hasattr(function, "trace") else jit(function)).trace(*args)  # pyright: ignore[reportFunctionMemberAccess]  # a jitted function has it
    name, steps = traced.fun_name, _PassObserver()
    with observe(steps):
        lowered = traced.lower()
    first = jaxpr_program(traced.jaxpr.jaxpr, name=name, key=f"{name}:0")
    states = _jaxpr_states(first, steps.after)
    stablehlo = program(lowered, key=f"{name}:stablehlo")
    states.append(_State("StableHLO", len(stablehlo.equations.id), math.inf, lambda: stablehlo))
    with tempfile.TemporaryDirectory() as folder:
        if with_xla:
            states += _xla_states(lowered, folder, equations_by_id(traced.jaxpr.jaxpr))
        states[-1] = states[-1]._replace(change=math.inf)
        return _record(first, _states_to_show(states, MAX_OPERATIONS - len(first.equations.id)))


class _State(NamedTuple):
    """A program after a pass that changed it."""

    title: str
    operations: int
    change: float
    """Number of operations that were added or removed since the state before; infinite if the state must be shown."""
    load: Callable[[], ProgramRecord]


def _states_to_show(states: Sequence[_State], budget: int) -> list[_State]:
    """The required states, and those with the largest changes whose operations fit into `budget`."""
    chosen: set[int] = set()
    for i in sorted(range(len(states)), key=lambda i: (-states[i].change, i)):
        state = states[i]
        if state.change == math.inf or state.operations <= budget:
            chosen.add(i)
            budget -= state.operations
    shown: list[_State] = []
    titles: list[str] = []
    for i, state in enumerate(states):
        titles.append(state.title)
        if i in chosen:
            shown.append(state._replace(title=", ".join(titles)))
            titles = []
    return shown


def _record(first: ProgramRecord, states: Sequence[_State]) -> LadderRecord:
    programs: list[ProgramRecord] = [first]
    links: list[LinkRecord] = []
    for state in states:
        before, after = programs[-1], state.load()
        after = dataclasses.replace(after, key=f"{first.name}:{len(programs)}")
        tie = _by_name if before.dialect == after.dialect == "hlo" else link
        links.append(tie(before, after, "lower" if after.dialect == "stablehlo" else state.title))
        programs.append(after)
    return LadderRecord(
        name=first.name, transformations=["", *(state.title for state in states)],
        sources=[*range(-1, len(states))], programs=programs, links=links,
    )  # fmt: skip


class _PassObserver(Observer):
    """Collects the programs after passes over jaxprs."""

    def __init__(self) -> None:
        self.after: list[tuple[str, Jaxpr]] = []

    def pass_finished(self, event: PassFinished, /) -> None:
        result = event.after[0] if is_tuple(event.after) else event.after
        if isinstance(result, Jaxpr):
            self.after.append((event.name, result))


def _jaxpr_states(first: ProgramRecord, steps: Sequence[tuple[str, Jaxpr]]) -> list[_State]:
    """The states of a jaxpr that differ from the previous one."""
    states: list[_State] = []
    before = first
    for title, jaxpr in steps:
        after = jaxpr_program(jaxpr, name=first.name)
        if _content(after) != _content(before):
            ids = after.equations.id
            change = len({*ids} ^ {*before.equations.id})
            states.append(_State(title, len(ids), change, lambda after=after: after))
            before = after
    return states


def _content(record: ProgramRecord) -> Any:
    """The parts of a record that a pass over jaxprs may change: equations, their operands, and constants."""
    equations = record.equations
    return equations.id, equations.operands, equations.bodies, record.bodies


def _xla_states(lowered: Lowered, folder: str, equations: Any) -> list[_State]:
    """The states of XLA's program that differ from the previous one, loaded lazily from dumps in `folder`."""
    options = {
        "xla_dump_to": folder,
        "xla_dump_hlo_pass_re": ".*",
        "xla_dump_hlo_as_text": True,
    }
    with config.enable_compilation_cache(False):
        lowered.compile(compiler_options=options)

    def load(dump: _Dump) -> ProgramRecord:
        module, text = dump.program()
        return hlo_state(module, equations, name=lowered.fun_name, key="", text=text)

    states: list[_State] = []
    before: list[str] = []
    for dump in sorted(filter(None, map(_Dump.of, Path(folder).iterdir()))):
        _, text = dump.program()
        # The first line contains the layouts of the entry computation.
        lines = text.split("\n")[1:]
        if lines != before:
            here, there = Counter(lines), Counter(before)
            change = ((here - there) + (there - here)).total() if states else math.inf
            count = sum(" = " in line for line in lines)
            states.append(_State(dump.title, count, change, functools.partial(load, dump)))
        before = lines
    return states


class _Dump(NamedTuple):
    """A file that XLA dumped between two passes."""

    step: int
    title: str
    path: Path

    def program(self) -> tuple[Any, str]:
        """(the module, its text)."""
        module = xla_hlo.module_from_text(self.path.read_text())
        return module, xla_hlo.program_text(module)

    @classmethod
    def of(cls, path: Path) -> _Dump | None:
        """The dump in a file; None for other files."""
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
    """Pairs of operations with the same name in two states of a module; passes keep the names of unchanged operations."""
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
