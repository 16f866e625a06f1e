"""Interpolation between rotations."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid import numpy as jnp
from pellucid._machine.base import ArrayLike, ShapeError, public_functions
from pellucid._machine.tracing import type_of
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

from .rotation import Rotation


class Slerp(NamedTuple):
    """Rotations between those at ascending `times` [n], at constant velocity on the shortest way; `init` makes it.

    >>> turns = Rotation.from_euler("z", jnp.array([0.0, 90.0]), degrees=True)
    >>> Slerp.init(jnp.array([0.0, 1.0]), turns)(jnp.array(0.5)).as_euler("zyx", degrees=True).round() + 0
    Array([45.,  0.,  0.], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The interpolation between `rotations`, at least two, at `times`. Raises: ShapeError for other numbers."""
        aval = aval_of("Slerp.init", jnp.asarray(times))
        if (
            rotations.single
            or aval.ndim != 1
            or aval.shape[0] != len(rotations)
            or aval.shape[0] < 2
        ):
            raise ShapeError(
                "Slerp needs a vector of times, and as many rotations, at least two.",
                got=[f"times: {aval.text()}", f"rotations: {type_of(rotations.quat).text()}"],
            )
        [times] = promote_dtypes_inexact("Slerp.init", jnp.asarray(times))
        first, second = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), first, (first.inv() * second).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at `times`, a number or a vector."""
        [times] = promote_dtypes_inexact("Slerp", jnp.asarray(times))
        last = type_of(self.timedelta).shape[0] - 1
        i = jnp.clip(jnp.searchsorted(self.times, times, side="right") - 1, 0, last)
        place = (times - self.times[i]) / self.timedelta[i]
        return self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * place[..., None])


__all__ = ["Slerp"]

public_functions(__all__, globals())
