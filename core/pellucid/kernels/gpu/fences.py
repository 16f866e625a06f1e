"""Operations of a thread on no reference: fences, groups of copies, waits for products, registers.

In a program that runs by itself copies and products are made when they start, so these do nothing. The simulator and lowerings read their params.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pellucid._machine.base import ArgumentValueError
from pellucid._machine.ir import NoParams, P, Shown, write_effect
from pellucid._machine.refs.primitives import OfReference
from pellucid._machine.tracing import bind


class Fence(Shown, OfReference[P]):
    """Base class of operations on no reference, which keep their place among those on references."""

    traits = OfReference.traits.replace(returns_list=True)
    own_effects = frozenset({write_effect})
    is_discharged_alone = True

    def abstract_eval(self, avals, params):
        return []

    def run(self, operands, params):
        return []

    def discharge(self, operands, params):
        return []

    def batch(self, axis, operands, dims, params):
        return [], []


class CommitSmem(Fence[NoParams]):
    """Lets copies from shared memory see what this thread has written to it."""

    name = "commit_smem"


class CommitGroup(Fence[NoParams]):
    """Makes a group of the copies from shared memory that this thread has started, and that belong to none."""

    name = "commit_smem_to_gmem_group"


class CopyWaitParams(NamedTuple):
    """At most `n` of the newest groups are still in flight; with `read_only` their sources are read, else their targets are written."""

    n: int
    read_only: bool


class CopyWait(Fence[CopyWaitParams]):
    """Waits for groups of copies from shared memory."""

    name = "wait_smem_to_gmem"


class ProductWaitParams(NamedTuple):
    """At most `n` of the newest products are still in flight."""

    n: int


class ProductWait(Fence[ProductWaitParams]):
    """Waits for products of `wgmma`."""

    name = "wgmma_wait"


class RegistersParams(NamedTuple):
    """`n` registers for each lane, more or fewer than there were."""

    n: int
    increases: bool


class MaxRegisters(Fence[RegistersParams]):
    """Changes the number of registers that a thread may use."""

    name = "set_max_registers"


commit_smem_p, commit_group_p, copy_wait_p = CommitSmem(), CommitGroup(), CopyWait()
product_wait_p, max_registers_p = ProductWait(), MaxRegisters()


def commit_smem() -> None:
    """Let copies from shared memory, and `wgmma`, see what this thread has written to it.

    >>> commit_smem()
    """
    bind(commit_smem_p)


def commit_smem_to_gmem_group() -> None:
    """Make a group of the copies from shared memory that this thread has started with `commit_group=False`.

    >>> commit_smem_to_gmem_group()
    """
    bind(commit_group_p)


def count(caller: str, n: Any) -> int:
    """A number of what may be in flight. Raises: ArgumentValueError for one that isn't known, or below 0."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentValueError(
            f"{caller} takes a number that is known when the kernel is traced, from 0 on.",
            got=f"got {n!r:.40}",
        )
    return n


def wait_smem_to_gmem(n: int, wait_read_only: bool = False) -> None:
    """Wait until at most the `n` newest groups of copies from shared memory that this thread has committed are in flight.

    With `wait_read_only` the sources of the others are read, and may be written again; without, their targets are written, too.

    >>> wait_smem_to_gmem(0)
    """
    params = CopyWaitParams(count("wait_smem_to_gmem", n), bool(wait_read_only))
    bind(copy_wait_p, params=params)


def wgmma_wait(n: int) -> None:
    """Wait until at most the `n` newest products of this thread are in flight.

    >>> wgmma_wait(0)
    """
    bind(product_wait_p, params=ProductWaitParams(count("wgmma_wait", n)))


def set_max_registers(n: int, *, action: Literal["increase", "decrease"]) -> None:
    """Let this thread have `n` registers for each lane from here on, which is more or fewer than before.

    Raises: ArgumentValueError for an `n` that is no multiple of 8 from 24 to 256.

    >>> set_max_registers(40, action="decrease")
    """
    if action not in ("increase", "decrease"):
        raise ArgumentValueError(
            'set_max_registers: `action` is "increase" or "decrease".', got=f"got {action!r:.40}"
        )
    if isinstance(n, bool) or not isinstance(n, int) or n % 8 or not 24 <= n <= 256:
        raise ArgumentValueError(
            "set_max_registers takes a multiple of 8, from 24 to 256.", got=f"got {n!r:.40}"
        )
    bind(max_registers_p, params=RegistersParams(n, action == "increase"))


def griddepcontrol_wait() -> None:
    """Wait until the kernel before this one has ended. It always has: nothing is launched ahead.

    >>> griddepcontrol_wait()
    """


def griddepcontrol_launch_dependents() -> None:
    """Allow the next kernel to be launched before this one has ended. It isn't: nothing is launched ahead.

    >>> griddepcontrol_launch_dependents()
    """
