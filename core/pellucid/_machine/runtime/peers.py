"""The current job, for the rest of the runtime, and the programs that this process runs together with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pellucid._machine.base import DistributedError, Ints, config, interruptible
from pellucid._machine.ir import Avals, Operands
from pellucid._machine.sharding import Sharding
from pellucid._machine.xla import ARRAY_TYPES, ArrayImpl
from pellucid._machine.xla.compile import LoadedExecutable
from pellucid._machine.xla.hlo import exchanges_data

if TYPE_CHECKING:
    from .distributed.job import Job

T = TypeVar("T")

FAILURE_REPORT_SECONDS = 2.0
"""Maximum time in seconds in which the coordinator reports why a connection broke."""
_MAX_NAMED_PROCESSES = 16


class Proposal(NamedTuple):
    """The program that a process is about to run with others, which must make the same proposal."""

    subject: str
    """The subject of the agreement, for messages."""
    text: str
    """The program and the types of its arguments."""
    process_ids: Ints
    """The group: all processes that run the program."""
    key: str
    """Digest of `text`."""
    contents: str = ""
    """Digest of the arguments that each process provides itself; empty if there are none."""


jobs: list[Job] = []
"""The job of this process; empty if there is none, so that it owns all devices."""


def agree(what: str, text: str, process_ids: Ints | None = None) -> None:
    """Wait until all processes (of `process_ids`) have proposed the same `text` about `what`; returns at once without a
    job.

    Raises: AgreementError in each of them if the texts differ.
    """
    for job in jobs:
        job.meetings.agree(what, text, process_ids)


def digest(values: Iterable[Any]) -> str:
    """Digest of the bytes of the arrays `values`: 16 hexadecimal digits."""
    digest = sha256()
    for value in values:
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def check() -> None:
    """Raise PeerFailureError if a process of the job has failed, AgreementError if launches differed."""
    for job in jobs:
        job.membership.check()


def wait(function: Callable[..., T], *arguments: Any) -> T:
    """`function(*arguments)`, which waits for other processes; interrupted by Ctrl-C and by the errors of `check`."""
    return interruptible(function, *arguments, check=check)


def failure_behind(text: str) -> DistributedError | None:
    """The failure of a process that explains the error `text` of a program.

    A program often sees a broken connection before the coordinator has reported its reason.
    """
    if not jobs:
        return None
    is_about_connections = "gloo" in text.lower() or "nccl" in text.lower()
    return jobs[0].membership.failure(FAILURE_REPORT_SECONDS if is_about_connections else 0.0)


def processes_in_words(indices: Ints) -> str:
    """A text such as "process 3" or "processes 0, 2"; only the first ones if there are very many."""
    shown = ", ".join(map(str, indices[:_MAX_NAMED_PROCESSES]))
    if len(indices) > _MAX_NAMED_PROCESSES:
        shown += f" and {len(indices) - _MAX_NAMED_PROCESSES} others"
    return f"process {shown}" if len(indices) == 1 else f"processes {shown}"


# Programs that several processes run together --------------------------------------------------------

_SUBJECT = "the program over several processes"
_MAX_COMPARED_BYTES = 4096
"""Maximum size of a local value that is compared before each run."""


class SharedExecutable:
    """An executable whose devices belong to several processes, `process_ids`.

    Collectives of CPUs pair by order alone: a process that runs another program gives the others wrong numbers, or
    ends them. So processes that exchange data agree before the first run of a program and whenever it follows another
    program than before, and compare all other runs afterwards; elsewhere they agree before the first run only.
    """

    def __init__(
        self,
        name: str,
        in_avals: Avals,
        loaded: LoadedExecutable,
        shardings: Sequence[Sharding],
        digest: str,
    ) -> None:
        lists = [sharding._internal_device_list.process_indices for sharding in shardings]
        self._exchanges_data = exchanges_data(loaded)
        self._is_on_cpus = loaded.local_devices()[0].platform == "cpu"
        text = f"{name}({', '.join(aval.text() for aval in in_avals)})"
        if digest:
            text += f", program {digest}"
        key = sha256(text.encode()).hexdigest()[:12]
        self.proposal = Proposal(_SUBJECT, text, sorted(set().union(*lists)), key)
        self._has_run = False
        self.entry = ((tuple(self.proposal.process_ids), key),)
        """One launch, (group, key), by which a queue of launches is extended."""

    @property
    def is_compared(self) -> bool:
        """Whether each run has to come through `launch`."""
        return self._exchanges_data and self._mode() != "first_run"

    def is_counted_in_cpp(self, arguments: Operands) -> bool:
        """Whether C++ may launch the program on arrays like `arguments`; a `LaunchPoint` in the last one's place then counts the launch."""
        return (
            self._mode() == "new_order"
            and bool(arguments)
            and all(type(x) is ArrayImpl and not x.is_fully_addressable for x in arguments)
        )

    def _mode(self) -> str:
        mode = config.agreement_on_programs.value
        return mode if mode != "auto" else "new_order" if self._is_on_cpus else "first_run"

    def launch(self, start: Callable[[Any], T], arguments: Any, operands: Operands) -> T:
        """`start(arguments)`, when all processes are about to launch the program with equal local values.

        Local values are those of `operands` that are on the host or are arrays of this process only. Large ones are
        compared only before the first run.
        """
        is_first_run = not self._has_run
        mode = self._mode()
        if not self._exchanges_data or (mode == "first_run" and not is_first_run):
            check()
            return start(arguments)
        local_values = [
            x
            for x in operands
            if (type(x) not in ARRAY_TYPES or x.is_fully_addressable)
            and (is_first_run or np.asarray(x).nbytes <= _MAX_COMPARED_BYTES)
        ]
        proposal = self.proposal
        if local_values:
            proposal = proposal._replace(contents=digest(local_values))
        if jobs:
            is_order_enough = mode == "new_order" and not is_first_run
            results = jobs[0].meetings.launch(
                start, arguments, proposal, is_order_enough=is_order_enough
            )
        else:  # the job is over; the devices report it
            results = start(arguments)
        self._has_run = True
        return results


class LaunchPoint:
    """A stand-in for the layout of the last argument, which C++ reads at each launch just before it starts a shared
    program.

    So the launch is recorded, and if necessary waits for other processes, on the C++ call path.
    """

    def __init__(self, program: SharedExecutable, layout: Any) -> None:
        self._proposal = program.proposal
        self._entry = program.entry
        self._layout = layout

    def _to_xla_layout(self, dtype):
        launched = jobs[0].meetings.admit(self._proposal) if jobs else []
        # Python handles no signals here or before C++ starts the program: a recorded launch takes place.
        launched += self._entry
        return self._layout
