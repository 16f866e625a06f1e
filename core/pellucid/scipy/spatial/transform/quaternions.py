"""Unit quaternions [..., 4] with the scalar last, as other descriptions of rotations.

Sources: Shepperd, Quaternion from rotation matrix (1978); Bernardes and Viollet, Quaternion to Euler angles conversion
(2022); Schaub and Junkins (1996) for modified Rodrigues parameters.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArgumentValueError
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function

_SMALL_ANGLE = 1e-3
"""Angles below this, in radians, are computed by series."""
_LOCKED_ANGLE = 1e-7
"""Gimbal lock: if the middle Euler angle, plus pi / 2 where all axes differ, is this close to 0 or pi, in radians, the
other two are angles of one rotation.
"""


@numpy_function
def normalize(q: Array) -> Array:
    """Quaternions divided by their norms."""
    return q / jnp.linalg.norm(q, axis=-1, keepdims=True)


@numpy_function
def product(p: Any, q: Any) -> Array:
    """Hamilton's product: the rotation `q`, then `p`."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * v + b * u + jnp.cross(u, v)
    return jnp.concatenate([vector, a * b - jnp.sum(u * v, axis=-1, keepdims=True)], axis=-1)


@numpy_function
def inverse(q: Array) -> Array:
    """Quaternions of the inverse rotations."""
    return q * np.array([-1, -1, -1, 1], type_of(q).dtype)


@numpy_function
def canonical(q: Array) -> Array:
    """Of q and -q, which are one rotation, the one whose first nonzero part is positive, in the order scalar, x, y,
    z.
    """
    x, y, z, w = (q[..., i] for i in range(4))
    is_negative = (w < 0) | ((w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))))
    return jnp.where(is_negative[..., None], -q, q)


# Rotation vectors ---------------------------------------------------------------------------------


@numpy_function
def from_rotation_vector(v: Array) -> Array:
    """Quaternions of rotations by |v| radians about v."""
    square = jnp.sum(v * v, axis=-1, keepdims=True)
    is_small = square < _SMALL_ANGLE**2
    angle = jnp.sqrt(jnp.where(is_small, 1, square))
    series = 0.5 - square / 48 + square * square / 3840
    scale = jnp.where(is_small, series, jnp.sin(angle / 2) / angle)
    scalar = jnp.where(is_small, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
    return jnp.concatenate([scale * v, scalar], axis=-1)


@numpy_function
def to_rotation_vector(q: Array) -> Array:
    """Rotation vectors: along the axes, with the angles, from 0 to pi, as lengths."""
    q = jnp.where(q[..., 3:] < 0, -q, q)
    vector, scalar = q[..., :3], q[..., 3:]
    square = jnp.sum(vector * vector, axis=-1, keepdims=True)
    is_small = square < (_SMALL_ANGLE / 2) ** 2
    sine = jnp.sqrt(jnp.where(is_small, 1, square))
    scale = jnp.where(is_small, 2 + square / 3, 2 * jnp.arctan2(sine, scalar) / sine)
    return scale * vector


@numpy_function
def magnitude(q: Array) -> Array:
    """Angles of rotations, from 0 to pi."""
    return 2 * jnp.arctan2(jnp.linalg.norm(q[..., :3], axis=-1), jnp.abs(q[..., 3]))


# Modified Rodrigues parameters --------------------------------------------------------------------


@numpy_function
def from_mrp(p: Array) -> Array:
    """Quaternions of modified Rodrigues parameters: axes times tan(angle / 4)."""
    square = jnp.sum(p * p, axis=-1, keepdims=True)
    return jnp.concatenate([2 * p, 1 - square], axis=-1) / (1 + square)


@numpy_function
def to_mrp(q: Array) -> Array:
    """Modified Rodrigues parameters, of norm at most 1."""
    q = jnp.where(q[..., 3:] < 0, -q, q)
    return q[..., :3] / (1 + q[..., 3:])


# Matrices -----------------------------------------------------------------------------------------


@numpy_function
def to_matrix(q: Array) -> Array:
    """Matrices [..., 3, 3] that rotate column vectors."""
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), w * w - x * x + y * y - z * z, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), w * w - x * x - y * y + z * z],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


@numpy_function
def from_matrix(m: Array) -> Array:
    """Quaternions of orthogonal matrices, computed from the largest of their four parts."""
    d = jnp.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]], axis=-1)
    trace = jnp.sum(d, axis=-1)
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1 - trace + 2 * d[..., i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        candidates.append(jnp.stack(parts, axis=-1))
    differences = [
        m[..., 2, 1] - m[..., 1, 2],
        m[..., 0, 2] - m[..., 2, 0],
        m[..., 1, 0] - m[..., 0, 1],
    ]
    candidates.append(jnp.stack([*differences, 1 + trace], axis=-1))
    choice = jnp.argmax(jnp.concatenate([d, trace[..., None]], axis=-1), axis=-1)
    stacked = jnp.stack(candidates, axis=-2)
    chosen = jnp.take_along_axis(stacked, choice[..., None, None], axis=-2)[..., 0, :]
    return normalize(chosen)


# Euler angles -------------------------------------------------------------------------------------


def checked_sequence(seq: str, counts: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """(axes, whether they rotate with the body) of a sequence such as "xyz" (fixed axes) or "ZXZ".

    Raises: ArgumentValueError for other texts, for mixed case and for an axis that follows itself.
    """
    axes = tuple("xyz".find(letter) for letter in seq.lower())
    is_mixed = seq not in (seq.lower(), seq.upper())
    if len(seq) not in counts or -1 in axes or is_mixed or any(a == b for a, b in itertools.pairwise(axes)):  # fmt: skip
        numbers = " or ".join(map(str, counts))
        raise ArgumentValueError(
            f"Rotation needs a sequence of {numbers} axes of xyz (fixed) or XYZ (of the body), each another one than the one before.",
            got=f"seq: {seq!r}",
        )
    return axes, seq.isupper()


@numpy_function(static=("axes", "is_intrinsic"))
def from_euler(angles: Array, axes: tuple[int, ...], is_intrinsic: bool) -> Any:
    """Quaternions of rotations by `angles` [..., n], one after another, about the numbered axes."""
    result = None
    for i, axis in enumerate(axes):
        half = angles[..., i] / 2
        parts = [jnp.zeros_like(half)] * 3
        parts[axis] = jnp.sin(half)
        q = jnp.stack([*parts, jnp.cos(half)], axis=-1)
        earlier, later = (result, q) if is_intrinsic else (q, result)
        result = q if result is None else product(earlier, later)
    return result


@numpy_function(static=("axes", "is_intrinsic"))
def to_euler(q: Array, axes: tuple[int, ...], is_intrinsic: bool) -> Array:
    """Euler angles [..., 3] about three numbered axes; in gimbal lock the third one is 0."""
    i, j, k = axes[::-1] if is_intrinsic else axes
    first, third = (2, 0) if is_intrinsic else (0, 2)
    is_proper = i == k
    k = 3 - i - j if is_proper else k
    sign = (i - j) * (j - k) * (k - i) // 2
    a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
    if not is_proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    is_zero, is_half = middle <= _LOCKED_ANGLE, jnp.abs(middle - np.pi) <= _LOCKED_ANGLE
    angles = [middle] * 3
    angles[first], angles[third] = half_sum - half_difference, half_sum + half_difference
    turned = 2 * half_difference * (1 if is_intrinsic else -1)
    angles[0] = jnp.where(is_zero, 2 * half_sum, jnp.where(is_half, turned, angles[0]))
    angles[2] = jnp.where(is_zero | is_half, 0, angles[2])
    if not is_proper:
        angles[third] = angles[third] * sign
        angles[1] = angles[1] - np.pi / 2
    stacked = jnp.stack(angles, axis=-1)
    return stacked - 2 * np.pi * jnp.sign(stacked) * (jnp.abs(stacked) > np.pi)
