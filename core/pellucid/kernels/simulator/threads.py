"""Threads of a block, and what runs beside them: copies from shared memory, matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError

from . import memory
from .clocks import Agent, note_access
from .copying import BYTES_PER_STEP, LATENCY, Copy, Window
from .machine import Core, Event, Machine
from .memory import Buffer


class Thread(Core):
    """A thread of a block: a warpgroup."""

    def __init__(self, machine: Machine, block: tuple[int, ...], number: int, name: str) -> None:
        super().__init__(machine, 0, number)
        self.block, self.name = block, name
        self.loose: list[BulkCopy] = []
        """Copies from shared memory that belong to no group."""
        self.groups: list[list[BulkCopy]] = []
        """Groups of such copies, the oldest first, that it hasn't waited for."""
        self.products: list[MatrixProduct] = []
        """Products that it hasn't waited for, the oldest first."""
        self.uncommitted: list[tuple[Buffer, memory.Region, Any]] = []
        """What it has written to shared memory since `commit_smem`."""
        self.tests = 0
        """How often in succession it has tested a barrier whose phase isn't complete."""

    def notes(self, buffer: Buffer, region: memory.Region, *, is_write: bool) -> None:
        """Take note of an access of its own: products that use a part of shared memory, or an accumulator, are named."""
        if is_write and buffer.space == "smem":
            self.uncommitted.append((buffer, region, self.source))
        if buffer.space == "accumulator":
            self.finish_products(0)

    def replaces(self, buffer: Buffer) -> None:
        """Raise CheckError for a block that a product in flight still reads."""
        for product in self.products:
            sides = [side for side in (product.left, product.right) if isinstance(side, tuple)]
            if any(side[0] is buffer for side in sides):
                raise CheckError(
                    f"a block is replaced that a product in flight reads: {buffer}.",
                    got=f"{product.text()}, {describe(product.source)}",
                    where=describe(self.source),
                    do="Call `wgmma_wait(0)` before the program ends.",
                )

    def commits(self) -> None:
        """Let copies and products see what it has written."""
        self.uncommitted.clear()

    def check_committed(self, buffer: Buffer, region: memory.Region, what: str) -> None:
        """Raise CheckError where it has written a part of shared memory that a copy or a product reads, and not committed it."""
        for thread in self.machine.cores:
            for other, written, source in getattr(thread, "uncommitted", ()):
                if other is buffer and memory.overlap(region, written, buffer.shape):
                    raise CheckError(
                        f"{what} reads a part of shared memory that isn't committed.",
                        got=[
                            f"{self.text()} lets it read {region.text()} of {buffer}, {describe(self.source)}",
                            f"{thread.text()} has written {written.text()}, {describe(source)}",
                        ],
                        do="Call `commit_smem()` in the thread that has written, before the copy or the product, and let a barrier order other threads.",
                    )

    def finish_products(self, n: int) -> None:
        """Wait until at most the `n` newest products are in flight."""
        start = self.time
        while len(self.products) > n:
            product = self.products.pop(0)
            product.make()
            self.joins(product.released())
            self.time = max(self.time, product.ends)
        if self.time > start:
            self.note("wait", start, "wgmma")

    def finish_copies(self, n: int, *, read_only: bool) -> None:
        """Wait until at most the `n` newest groups of copies are in flight; with `read_only` until the others are read."""
        start = self.time
        older = self.groups[: max(len(self.groups) - n, 0)]
        for copy in [copy for group in older for copy in group]:
            if read_only:
                copy.read()
            else:
                copy.write()
            self.joins(copy.released())
            self.time = max(self.time, copy.ends)
        if not read_only:
            del self.groups[: len(older)]
        if self.time > start:
            self.note("wait", start, "copies")

    def check_end(self) -> None:
        """Raise CheckError for what is in flight when it ends."""
        copies = [*[c for group in self.groups for c in group if c.data is None], *self.loose]
        for found, wait in ((copies, "wait_smem_to_gmem(0)"), (self.products, "wgmma_wait(0)")):
            if found:
                raise CheckError(
                    f"{self.text()} ends before it has waited for {found[0].text()}.",
                    where=describe(found[0].source),
                    do=f"Call `{wait}` before the end: shared memory and registers go with the block.",
                )
        for copy in [c for group in self.groups for c in group]:
            copy.write()


class BulkCopy(Copy):
    """A copy from shared memory, that a thread waits for by groups."""

    combine: Callable[[Any, Any], Any] | None = None
    """How the target is combined with what is copied."""

    def write(self) -> None:
        """Write the target."""
        if self.combine is None:
            super().write()
            return
        self.read()
        if self.is_done:
            return
        self.is_done = True
        buffer, window = self.write_to
        if self.finds_races:
            # Reductions of several copies are in some order, whatever it is.
            note_access(buffer, window.region(buffer.array.shape), self, is_write=False)
        value = np.asarray(self.combine(window.value(buffer.array), self.data))
        window.write(buffer.array, value.astype(buffer.array.dtype), add=False)
        self.ended(self)


class MatrixProduct(Agent):
    """A product that is added to an accumulator beside the thread that has started it."""

    def __init__(
        self,
        core: Thread,
        acc: Buffer,
        left: tuple[Buffer, Window] | np.ndarray,
        right: tuple[Buffer, Window],
        multiply: Callable[[Any, Any], Any],
    ) -> None:
        self.number, self.name = core.machine.next_agent(), core.name
        self.clock = core.released()
        self.clock[self.number] = 0
        self.source, self.program, self.time = core.source, core.program, core.time
        self.core, self.acc, self.left, self.right = core, acc, left, right
        self.multiply = multiply
        self.ends = self.time + LATENCY + acc.array.size / BYTES_PER_STEP
        self.is_made = False

    def text(self) -> str:
        """Who has started it."""
        return f"a product started by {self.name}{self.program}"

    def make(self) -> None:
        """Read the matrices, and add their product."""
        if self.is_made:
            return
        self.is_made = True
        values = []
        for side in (self.left, self.right):
            if isinstance(side, np.ndarray):
                values.append(side)
                continue
            buffer, window = side
            if self.core.machine.finds_races:
                note_access(buffer, window.region(buffer.array.shape), self, is_write=False)
            values.append(window.value(buffer.array))
        self.acc.array[...] += np.asarray(self.multiply(*values)).astype(self.acc.array.dtype)
        machine = self.core.machine
        if machine.records:
            line = describe(self.source)
            machine.trace.append(
                Event(0, self.core.core, self.program, "compute", line, "wgmma", 0, self.time, self.ends)
            )  # fmt: skip
