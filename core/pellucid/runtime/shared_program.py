"""Agreement of processes that run one program together, so that all of them run the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from pellucid.base import config
from pellucid.ir import Avals, Operands
from pellucid.sharding.placement import Sharding
from pellucid.xla.arrays import ARRAY_TYPES, ArrayImpl
from pellucid.xla.compile import LoadedExecutable
from pellucid.xla.hlo import exchanges_data

from . import peers

T = TypeVar("T")

_SUBJECT = "the program over several processes"
_MAX_COMPARED_BYTES = 4096
"""Maximum size of a local value that is compared before each run."""


class SharedProgram:
    """A program whose devices belong to several processes, `process_ids`.

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
        self.proposal = peers.Proposal(_SUBJECT, text, sorted(set().union(*lists)), key)
        self._has_run = False
        self.entry = ((tuple(self.proposal.process_ids), key),)
        """One launch, (group, key), by which a queue of launches is extended."""

    @property
    def is_compared(self) -> bool:
        """Whether each run has to come through `launch`."""
        return self._exchanges_data and self._mode() != "first_run"

    def is_counted_in_cpp(self, arguments: Operands) -> bool:
        """Whether C++ may launch the program on arrays like `arguments`, with a `LaunchPoint` for the last one."""
        return (
            self._mode() == "new_order"
            and bool(arguments)
            and all(type(x) is ArrayImpl and not x.is_fully_addressable for x in arguments)
        )

    def _mode(self) -> str:
        mode = config.agreement_on_programs.value
        return mode if mode != "auto" else "new_order" if self._is_on_cpus else "first_run"

    def launch(self, start: Callable[[Any], T], arguments: Any, operands: Operands) -> T:
        """`start(arguments)`, when all processes are about to do it, with equal local values.

        Local values are those of `operands` that are on the host, or arrays of this process alone. Large ones are
        compared before the first run only.
        """
        is_first_run = not self._has_run
        mode = self._mode()
        if not self._exchanges_data or (mode == "first_run" and not is_first_run):
            peers.check()
            return start(arguments)
        local_values = [
            x
            for x in operands
            if (type(x) not in ARRAY_TYPES or x.is_fully_addressable)
            and (is_first_run or np.asarray(x).nbytes <= _MAX_COMPARED_BYTES)
        ]
        proposal = self.proposal
        if local_values:
            proposal = proposal._replace(contents=peers.digest(local_values))
        results = peers.launch(
            start,
            arguments,
            proposal,
            is_order_enough=mode == "new_order" and not is_first_run,
        )
        self._has_run = True
        return results


class LaunchPoint:
    """The layout of the last argument, which C++ asks for in each launch, just before it starts a shared program.

    So the launch is noted, and waits for the other processes where it has to, on the C++ call path.
    """

    def __init__(self, program: SharedProgram, layout: Any) -> None:
        self._proposal = program.proposal
        self._entry = program.entry
        self._layout = layout

    def _to_xla_layout(self, dtype):
        launched = peers.admit(self._proposal)
        # Python looks for signals neither here nor before C++ starts the program: what is noted is launched.
        launched += self._entry
        return self._layout
