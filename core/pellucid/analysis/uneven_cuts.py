"""Sharding constraints that ask for more parts along a dimension than it can be cut into evenly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid._machine.base import source
from pellucid._machine.ir import Equation
from pellucid._machine.primitives.sharding_constraint import sharding_constraint_p
from pellucid._machine.runtime.executable import newest_user
from pellucid._machine.sharding.placement import tiles
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.values import bytes_text


class UnevenCut(NamedTuple):
    """A constraint that divides a dimension of a value into parts of different sizes."""

    type: str
    """Type of the value, as text."""
    dim: int
    size: int
    parts: int
    """Number of parts along the dimension."""
    padded: int
    """The next size that can be cut evenly."""
    whole_bytes: int
    """Bytes of the value, which each device holds where it is a result: results aren't cut unevenly."""
    device_bytes: int
    """Bytes of a part on each device if all dimensions that are cut unevenly were padded."""
    place: source.SourceFrame | None
    """The user's line; None if it isn't known."""

    @property
    def remedy(self) -> str:
        """What to do, as a clause: `pad 17 to 24 along dimension 0`."""
        return f"pad {self.size} to {self.padded} along dimension {self.dim}"

    @property
    def problem(self) -> str:
        """What is asked, and what happens instead, as a sentence."""
        return f"A constraint on {self.type} can't be met along dimension {self.dim}: {self._consequence}."

    @property
    def note(self) -> str:
        """The remedy with its reason, as a clause."""
        return f"{self.remedy}: {self._consequence}"

    @property
    def _consequence(self) -> str:
        whole, part = bytes_text(self.whole_bytes), bytes_text(self.device_bytes)
        return f"{self.parts} parts aren't even, so as a result it is whole on each device, {whole} instead of {part}"


def uneven_cuts_of(equation: Equation) -> Iterator[UnevenCut]:
    """The dimensions that `equation` cuts unevenly; none unless it is a constraint."""
    if equation.primitive is not sharding_constraint_p:
        return
    aval: Any = equation.operands[0].aval  # type: ignore[union-attr]
    counts = tiles(equation.params.sharding, aval.ndim).counts
    total = aval.size * aval.dtype.itemsize
    largest = [-(-size // parts) for size, parts in zip(aval.shape, counts, strict=True)]
    part = math.prod(largest) * aval.dtype.itemsize
    for dim, (size, parts) in enumerate(zip(aval.shape, counts, strict=True)):
        if size % parts:
            padded = -(-size // parts) * parts
            place = source.user_frame(equation.source)
            yield UnevenCut(aval.text(), dim, size, parts, padded, total, part, place)


def uneven_cuts(executable: Any) -> list[UnevenCut]:
    """The uneven cuts of the program that XLA's `executable` runs, and of the programs within it.

    Empty if the program is gone, or was read from a file.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    >>> f = pl.jit(lambda x: pl.lax.with_sharding_constraint(x + 1, pl.NamedSharding(mesh, pl.P("x"))))
    >>> compiled = f.lower(jnp.ones(17)).compile()
    >>> [each.remedy for each in uneven_cuts(compiled.runtime_executable())]
    ['pad 17 to 24 along dimension 0']
    """
    newest = newest_user(executable)
    if newest is None or newest.jaxpr is None:
        return []
    equations = (e for program in programs_within(newest.jaxpr) for e in program.equations)
    return list(dict.fromkeys(cut for e in equations for cut in uneven_cuts_of(e)))
