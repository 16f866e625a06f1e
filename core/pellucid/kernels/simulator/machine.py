"""The machine: devices with cores that run one kernel beside each other, their memories, and copies in flight between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError
from pellucid._machine.ir import Values

from . import memory
from .clocks import Agent
from .copying import BYTES_PER_STEP, Copy, Window
from .journal import Journal
from .memory import Buffer
from .params import InterpretParams
from .semaphore import Semaphore, Semaphores

Route = Literal["in", "out", "within", "send"]
"""Way of a copy: into the fast memory of a core, out of it, within one kind of memory, or to another device."""
_FAST = ("vmem", "smem")


def route_of(source: Buffer, target: Buffer) -> Route:
    """The way of a copy between two buffers."""
    if source.device != target.device:
        return "send"
    is_fast = [buffer.space in _FAST for buffer in (source, target)]
    return "within" if is_fast[0] == is_fast[1] else "in" if is_fast[1] else "out"


class Event(NamedTuple):
    """What a core or a copy did, in steps of simulated time: 1024 bytes copied, or elements computed, are one step, and a copy takes one more."""

    device: int
    core: int
    program: str
    kind: str
    """compute, read, write, copy, wait or signal."""
    source: Any
    """The traceback of the user's line."""
    buffer: str
    """The buffer or semaphore; of a copy both buffers."""
    n_bytes: int
    start: float
    end: float
    route: Route | None = None
    """Which way a copy goes."""

    @property
    def line(self) -> str | None:
        """The user's line, in words."""
        return describe(self.source)


class Wait(NamedTuple):
    """What a core waits for: a semaphore that has `value`."""

    sem: Semaphore
    value: int
    decrement: bool
    what: str

    def ends(self, core: Core) -> bool:
        """Whether it ends now, after copies that it waits for have gone on."""
        sem, random = self.sem, core.machine.random
        while sem.count < self.value and sem.pending:
            k = 0
            if random is not None:
                # Copies to one device arrive in the order of their starts.
                firsts = {c.issuer: i for i, c in reversed([*enumerate(sem.pending)])}
                k = int(random.choice(sorted(firsts.values())))
            sem.pending[k].goes_on_for(sem)
        if sem.count < self.value:
            return False
        at = sem.take(core, self.value, decrement=self.decrement)
        is_of_copy = self.what == "dma_wait" and sem.last_copy
        core.waits_until(at, f"copy of {sem.last_copy}" if is_of_copy else sem.name)
        return True

    def is_met(self) -> bool:
        """Whether it ends as soon as it is the core's turn."""
        return self.sem.count >= self.value

    def text(self) -> str:
        """What is missing, for messages."""
        unit = " bytes" if self.what == "dma_wait" else ""
        return (
            f"waits for {self.value}{unit} of semaphore {self.sem.name}, which has {self.sem.count}"
        )


class Waiting(Protocol):
    """What a core waits for."""

    def ends(self, core: Any) -> bool:
        """Whether it ends now, after what it waits for has gone on."""
        ...

    def is_met(self) -> bool:
        """Whether it ends as soon as it is the core's turn."""
        ...

    def text(self) -> str:
        """What is missing, for messages."""
        ...


class Stand:
    """Where a core that is stepped stands: before an equation. It doesn't wait, and its turn goes on."""


STAND = Stand()
Steps: TypeAlias = Generator["Core", None, None]
"""A run that pauses before each equation of a core, and gives the core; only of machines that are stepped."""


class Level:
    """A program that a core runs: the equation before which it stands, and the values that it has computed."""

    __slots__ = ("call", "ids", "jaxpr", "position", "turn", "values")

    def __init__(self, jaxpr: Any, values: dict[Any, Any], call: int, turn: int, ids: Any) -> None:
        self.jaxpr, self.values = jaxpr, values
        self.position = 0
        """The number of the equation that comes next; that of all equations at the end."""
        self.call, self.turn = call, turn
        """The number of the call that it is one of the runs of, such as an iteration, and which run."""
        self.ids = ids
        """The position in the grid; None for programs within it."""


class Core(Agent):
    """A core of a device, and where it is in its programs."""

    def __init__(self, machine: Machine, device: int, core: int) -> None:
        self.machine, self.device, self.core = machine, device, core
        has_others = machine.params.num_cores_or_threads > 1
        self.name = f"device {device}" + (f", core {core}" if has_others else "")
        self.number = machine.next_agent()
        self.clock = {self.number: 0}
        self.source: Any = None
        self.program = ""
        self.time = 0.0
        self.waiting: Waiting | None = None
        self.run: Generator[Waiting | Stand | None, None, Any]
        self.levels: list[Level] = []
        """The programs that it is in, outermost first."""
        self.n_calls = self.call = 0
        """How many equations it has run, and the number of the one whose programs it runs next."""
        self.turns: dict[Any, int] = {}
        """How often it has run each program of each call."""
        self.has_ended = False
        self.positions: dict[Any, int] = {}
        """The position along each axis of the mesh."""
        self.visits: dict[Any, int] = {}
        """How often each equation has made references."""
        self.shared: dict[Any, Any] = {}
        """Scratch that it has in common with other cores, by key."""
        machine.cores.append(self)

    def text(self) -> str:
        return f"{self.name}{self.program}"

    def begins(self, jaxpr: Any, values: dict[Any, Any], ids: Any) -> Level:
        """Let it stand before the first equation of a program that it runs."""
        turn = self.turns.get((self.call, jaxpr), 0)
        self.turns[self.call, jaxpr] = turn + 1
        self.levels.append(Level(jaxpr, values, self.call, turn, ids))
        return self.levels[-1]

    def ends(self) -> None:
        """Let it stand where it called the program that it has run."""
        self.call = self.levels.pop().call

    def note(self, kind: str, start: float, buffer: str = "", n_bytes: int = 0) -> None:
        """Record what it has done from `start` on."""
        if self.machine.records:
            self.machine.trace.append(
                Event(self.device, self.core, self.program, kind, self.source, buffer, n_bytes, start, self.time)
            )  # fmt: skip

    def notes(self, buffer: Buffer, region: memory.Region, *, is_write: bool) -> None:
        """Take note of an access of its own."""

    def waits_until(self, end: float, what: str) -> None:
        """Let it wait for `what`, which happens at `end`, unless that is past."""
        start = self.time
        self.time = max(start, end)
        self.note("wait", start, what)

    def replaces(self, buffer: Buffer) -> None:
        """Take note that a block is replaced by the next program's."""

    def computes(self, cost: int) -> None:
        """Let it compute that many elements."""
        start = self.time
        self.time += cost / BYTES_PER_STEP
        self.note("compute", start)


class Machine:
    """Devices with cores, and what is in flight between them.

    `trace` is what has happened, in simulated time: a core's own steps follow each other, copies run beside them.
    """

    def __init__(
        self,
        params: InterpretParams,
        n_devices: int,
        name: str,
        *,
        records: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.params, self.n_devices, self.name = params, n_devices, name
        self.journal = journal
        """What has effects outside of it, if it is stepped: it pauses before each equation, and may run again."""
        self.finds_races = params.detect_races
        self.is_eager = params.dma_execution_mode == "eager"
        self.records = records
        self.trace: list[Event] = []
        self.cores: list[Core] = []
        self.random = (
            None if params.random_seed is None else np.random.default_rng(params.random_seed)
        )
        self.shared: dict[Any, Any] = {}
        """Buffers and semaphores by (device, core or None, key)."""
        self.in_flight: list[Copy] = []
        """Copies that have started and not ended, in the order of their starts."""
        self.call: Any = None
        """What its kernel is a call of; equal for the machines of one call."""
        self.first_device = 0
        """The number of its device 0 among all devices of the call."""
        self.failure: BaseException | None = None
        """What has ended its run, if it was an error."""
        self.is_deadlocked = False
        self.current: Core | None = None
        """The core that runs, or at which the run has failed."""
        self._n_agents = 0
        self.agents, self.advice = "device", _ADVICE
        """What its cores are called, and what is advised where they wait for each other."""

    def next_agent(self) -> int:
        """A number for another agent."""
        self._n_agents += 1
        return self._n_agents

    # Memory ---------------------------------------------------------------------------------------------------

    def buffer(
        self,
        name: str,
        space: str,
        array: np.ndarray,
        core: Core,
        key: Any,
        *,
        shared: bool = False,
    ) -> Buffer:
        """A buffer of a core, or if `shared` of its device, which others find by `key`."""
        owner = f"device {core.device}" if shared else core.name
        found = Buffer(name, space, array, core.device, owner)
        found.key = (None if shared else core.core), key
        self.shared[core.device, *found.key] = found
        return found

    def semaphores(
        self, name: str, shape: tuple[int, ...], core: Core, key: Any, *, is_of_copies: bool
    ) -> Semaphores:
        """The semaphores of a core that others find by `key`."""
        place = core.device, core.core, key
        found = self.shared.get(place)
        if found is None:
            found = Semaphores(name, shape, core.device, core.name, is_of_copies=is_of_copies)
            found.key = core.core, key
            self.shared[place] = found
        return found

    def elsewhere(self, core: Core, x: Any, device: int, number: int | None = None) -> Any:
        """What a buffer or semaphores of a core are called on another device, or on its core `number`."""
        if not 0 <= device < self.n_devices:
            raise CheckError(
                f"{core.text()} names a device that there isn't.",
                got=f"device {device} of {self.n_devices}",
                where=describe(core.source),
            )
        own, key = x.key
        place = device, own if number is None or own is None else number, key
        found = self.shared.get(place)
        if found is None and type(x) is Semaphores:
            # Others may signal it before that core has come to where it makes it.
            other = next((c for c in self.cores if (c.device, c.core) == place[:2]), None)
            if other is not None:
                return self.semaphores(x.name, x.shape, other, key, is_of_copies=x.is_of_copies)
        if found is None:
            raise CheckError(
                f"{core.text()} copies to a buffer that device {device} doesn't have yet, or any more.",
                got=str(x),
                where=describe(core.source),
                do="Let the devices wait for each other first, by the barrier semaphore, or make the buffer as scratch of the kernel.",
            )
        return found

    # Copies ---------------------------------------------------------------------------------------------------

    def start(
        self,
        core: Core,
        source: tuple[Buffer, Window],
        target: tuple[Buffer, Window],
        sems: tuple[Semaphore | None, Semaphore | None],
        *,
        is_remote: bool,
        add: bool,
    ) -> None:
        """Let a copy of a core be in flight."""

        def end(copy: Copy) -> None:
            self.in_flight.remove(copy)
            self.note_copy(core, copy.source, copy.program, source[0], target[0], copy.n_bytes, copy.time, copy.ends)  # fmt: skip

        copy = Copy(
            self.next_agent(), core, source, target, sems,
            is_remote=is_remote, add=add, finds_races=self.finds_races, ended=end,
        )  # fmt: skip
        self.in_flight.append(copy)
        if self.is_eager:
            copy.write()

    def note_copy(
        self, core: Core, line: Any, program: str, source: Buffer, target: Buffer, n_bytes: int, start: float, end: float
    ) -> None:  # fmt: skip
        """Record a copy that a core has started at the traceback `line`."""
        if self.records:
            between = f"{source.brief(core.device)} to {target.brief(core.device)}"
            self.trace.append(
                Event(core.device, core.core, program, "copy", line, between, n_bytes, start, end, route_of(source, target))
            )  # fmt: skip

    # Time -----------------------------------------------------------------------------------------------------

    def run(self) -> Steps:
        """Let all cores run to their ends. Raises: CheckError where none can go on."""
        try:
            yield from self._run()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise
        self.current = None

    def _run(self) -> Steps:
        alive = [*self.cores]
        while alive:
            has_moved = False
            for core in self._in_turn(alive):
                self.current = core
                if core.waiting is not None and not core.waiting.ends(core):
                    continue
                has_moved, core.waiting = True, None
                try:
                    while isinstance(found := next(core.run), Stand):
                        yield core
                    core.waiting = found
                except StopIteration:
                    core.has_ended = True
                    alive.remove(core)
            if not has_moved:
                self.is_deadlocked, self.current = True, None
                raise self._deadlock(alive)
        self._check_end()

    def once(self, effect: Callable[[], Any]) -> Any:
        """What `effect` gives, which happens outside of the machine: when it runs again, what it gave then."""
        return effect() if self.journal is None else self.journal.once(effect)

    def _in_turn(self, cores: Sequence[Core]) -> list[Core]:
        order = range(len(cores)) if self.random is None else self.random.permutation(len(cores))
        return [cores[i] for i in order]

    def _deadlock(self, cores: Sequence[Core]) -> CheckError:
        rows = []
        for core in cores:
            line = describe(core.source)
            where = "" if line is None else f", {line}"
            wait: Any = core.waiting
            rows.append(f"{core.text()} {wait.text()}{where}")
        more = len(rows) - 16
        return CheckError(
            f"a deadlock in the kernel `{self.name}`: no {self.agents} can go on; each would wait forever.",
            got=[*rows[:16], *([f"and {more} more"] if more > 0 else [])],
            do=self.advice,
        )

    def _check_end(self) -> None:
        """Raise CheckError for copies that nobody has waited for, and for semaphores of copies and barriers that aren't at 0."""
        for found in self.shared.values():
            if isinstance(found, Semaphores):
                self._check_left(found)

    def _check_left(self, sems: Semaphores) -> None:
        for sem in sems.by_position.values():
            if sem.pending:
                copy: Any = sem.pending[0]
                raise CheckError(
                    f"the kernel `{self.name}` leaves a copy in flight that nobody has waited for.",
                    got=f"{copy.text()}, from {copy.read_from[0]} to {copy.write_to[0]}",
                    where=describe(copy.source),
                    do="Call `wait()` of the copy, or for one to another device `wait_send()` here and `wait_recv()` there.",
                )
            if sem.count and (sems.is_of_copies or sems.key[1] == BARRIER):
                raise CheckError(
                    f"the kernel `{self.name}` leaves a semaphore that isn't 0, which others use next.",
                    got=f"{sem.name}: {sem.count}{' bytes' if sems.is_of_copies else ''}",
                    do="Wait for as much as is signalled, for a copy to another device `wait_send()` here and `wait_recv()` there.",
                )


_ADVICE = (
    "Signal each semaphore as often as it is waited for, before the wait, or on another device."
)
BARRIER = "barrier"
"""The key of the barrier semaphore."""


def placed(values: Values) -> list[np.ndarray]:
    """Copies of operands as NumPy arrays that may be written."""
    return [np.array(x) for x in values]


def unused(aval: Any, params: InterpretParams) -> np.ndarray:
    """Memory without values."""
    return memory.poisoned(aval, zero=params.uninitialized_memory == "zero")
