"""Rotations in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp, random
from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    DTypeLike,
    ShapeError,
    dtypes,
    public_functions,
)
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

from . import quaternions


class _Quaternions(NamedTuple):
    quat: Any


def _components(name: str, x: Any, shape: tuple[int, ...]) -> Array:
    """`x`, of shape [n, *shape] or `shape`, in a floating dtype; raises ShapeError for other shapes."""
    aval = aval_of(f"Rotation.{name}", jnp.asarray(x))
    if aval.shape[-len(shape) :] != shape or aval.ndim > len(shape) + 1:
        raise ShapeError(
            f"Rotation.{name} needs an array {list(shape)}, or several.", got=aval.text()
        )
    return promote_dtypes_inexact(f"Rotation.{name}", jnp.asarray(x))[0]


class Rotation(_Quaternions):
    """One rotation, or a vector of them, as unit quaternions `quat` [4] or [n, 4] with the scalar last; a pytree.

    >>> turn = Rotation.from_euler("z", 90, degrees=True)
    >>> turn.apply(jnp.array([1.0, 0.0, 0.0])).round(4) + 0
    Array([0., 1., 0.], dtype=float32)
    """

    __slots__ = ()

    # Constructors ---------------------------------------------------------------------------------

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """The rotations of quaternions [4] or [n, 4] of any norm but 0, the scalar last."""
        return cls(quaternions.normalize(_components("from_quat", quat, (4,))))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """The rotations of orthogonal matrices [3, 3] or [n, 3, 3] of determinant 1."""
        return cls(quaternions.from_matrix(_components("from_matrix", matrix, (3, 3))))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotations about vectors [3] or [n, 3] by their norms as angles."""
        rotvec = _components("from_rotvec", rotvec, (3,))
        return cls(quaternions.from_rotation_vector(jnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """The rotations of modified Rodrigues parameters [3] or [n, 3]: axes times tan(angle / 4)."""
        return cls(quaternions.from_mrp(_components("from_mrp", mrp, (3,))))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotations by `angles` about the axes `seq`, one after another: "xyz" fixed ones, "XYZ" of the body.

        For one axis `angles` is a number or [n], for k axes [k] or [n, k]. Raises: ArgumentValueError for other axes.
        """
        axes, is_intrinsic = quaternions.checked_sequence(seq, (1, 2, 3))
        [angles] = promote_dtypes_inexact("Rotation.from_euler", jnp.asarray(angles))
        if len(axes) == 1 and type_of(angles).shape[-1:] != (1,):
            angles = jnp.expand_dims(angles, -1)
        angles = _components("from_euler", angles, (len(axes),))
        return cls(
            quaternions.from_euler(jnp.deg2rad(angles) if degrees else angles, axes, is_intrinsic)
        )

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """One rotation by 0, or `num` of them."""
        unit = np.array([0, 0, 0, 1])
        return cls(jnp.asarray(unit if num is None else np.tile(unit, (num, 1)), dtype))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """One rotation, or `num` of them, drawn uniformly from all rotations."""
        dtype = dtypes.default_float_dtype()
        shape = (4,) if num is None else (num, 4)
        return cls(quaternions.normalize(random.normal(random_key, shape, dtype)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """All `rotations` in one vector."""
        return cls(jnp.concatenate([jnp.atleast_2d(each.quat) for each in rotations]))

    # Descriptions ---------------------------------------------------------------------------------

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions [4] or [n, 4]; with `canonical`, of q and -q the one with the positive scalar."""
        q = quaternions.canonical(self.quat) if canonical else self.quat
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Matrices [3, 3] or [n, 3, 3] that rotate column vectors."""
        return quaternions.to_matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors [3] or [n, 3] along the axes, of the length of the angles."""
        v = quaternions.to_rotation_vector(self.quat)
        return jnp.rad2deg(v) if degrees else v

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters [3] or [n, 3]."""
        return quaternions.to_mrp(self.quat)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles [3] or [n, 3] about the three axes `seq`; see `from_euler`. In gimbal lock the third one is 0."""
        axes, is_intrinsic = quaternions.checked_sequence(seq, (3,))
        angles = quaternions.to_euler(self.quat, axes, is_intrinsic)
        return jnp.rad2deg(angles) if degrees else angles

    def magnitude(self) -> Array:
        """Angles of the rotations, from 0 to pi."""
        return quaternions.magnitude(self.quat)

    @property
    def single(self) -> bool:
        """Whether this is one rotation, and not a vector of them."""
        return type_of(self.quat).ndim == 1

    # Operations -----------------------------------------------------------------------------------

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """`vectors` [3] or [n, 3] rotated, backwards with `inverse`."""
        matrices = self.as_matrix()
        matrices = jnp.swapaxes(matrices, -1, -2) if inverse else matrices
        return jnp.einsum("...jk,...k->...j", matrices, _components("apply", vectors, (3,)))

    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(quaternions.inverse(self.quat))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation of least weighted square chordal distance from all of these."""
        q = jnp.atleast_2d(self.quat)
        weighted = q if weights is None else q * jnp.asarray(weights)[:, None]
        _, vectors = jnp.linalg.eigh(jnp.einsum("ni,nj->ij", weighted, q))
        return Rotation(vectors[:, -1])

    def __mul__(self, other: Rotation) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rotations `other`, then these."""
        return Rotation(quaternions.normalize(quaternions.product(self.quat, other.quat)))

    def __getitem__(self, indexer: Any) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.single:
            raise ArgumentTypeError("a single Rotation has no elements.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise ArgumentTypeError("a single Rotation has no length.")
        return type_of(self.quat).shape[0]

    def __bool__(self) -> bool:
        return True


__all__ = ["Rotation"]

public_functions(__all__, globals())
