"""Derivatives against central differences, along random directions.

A derivative in a direction costs two more evaluations of the function, however many arguments it has; only where that
disagrees is each argument moved alone, to say which of them is to blame.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import (
    ArgumentValueError,
    Function,
    PellucidError,
    dtypes,
    shown_path,
    strict_zip,
    tree_flatten,
    tree_flatten_with_path,
)
from pellucid.ir import Operands, Values
from pellucid.tracing import name_of, type_of

from .arguments import check_callable
from .gradient import vjp
from .jvp import jvp
from .linearize import linearize

Tolerance = float | Mapping[Any, float] | None
_TOLERANCES = {
    "float64": 1e-5, "complex128": 1e-5, "float32": 2e-3, "complex64": 1e-3, "float16": 1e-2, "bfloat16": 1e-1,
}  # fmt: skip
_OF_NARROW_FLOATS = 1e-1
_MODES = {"fwd": "jvp", "rev": "vjp", "lin": "linearize"}


class DerivativeMismatchError(PellucidError, AssertionError):
    """A derivative disagrees with central differences."""


def check_grads(
    f: Function,
    args: Operands,
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of `f` at `args` up to `order` against central differences.

    `modes` are "fwd" (`jvp`), "rev" (`vjp`) and "lin" (`linearize`); higher orders take each of them of each of
    them. Tolerances are numbers, or numbers by dtype, and grow with the number of elements compared; `eps` is the
    step of the differences, by default the cube root of the machine epsilon, which balances their two errors.

    Raises: DerivativeMismatchError, an AssertionError, that names order, mode, argument and both numbers.

    >>> check_grads(lambda x: x * x * x, (np.float32(1.5),), order=2)
    >>> check_grads(lambda x: x * lax.stop_gradient(x), (np.float32(1.5),), order=1)
    Traceback (most recent call last):
      ...
    pellucid.transforms.derivative_checks.DerivativeMismatchError: order 1, jvp of `<lambda>`: ...
    """
    check_callable(f, "check_grads")
    if isinstance(modes, str):
        modes = (modes,)
    unknown = [mode for mode in modes if mode not in _MODES]
    if unknown or order < 1:
        raise ArgumentValueError(
            "check_grads takes an order of 1 or more, and modes 'fwd', 'rev' and 'lin'.",
            got=f"order={order!r}, modes={tuple(modes)!r}",
        )
    names = [shown_path("args", path) for path, _ in tree_flatten_with_path(tuple(args))[0]]
    _check_orders(
        f, tuple(args), names, 1, order, modes, _Settings(atol, rtol, eps), f"`{name_of(f)}`"
    )


def check_jvp(
    f: Function,
    f_jvp: Function,
    args: Operands,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check `f_jvp(args, tangents)`, as `functools.partial(jvp, f)`, against central differences of `f` at `args`.

    Tolerances and `eps` are as for `check_grads`; `err_msg` comes in front of the message.

    Raises: DerivativeMismatchError.

    >>> from pellucid import jvp
    >>> check_jvp(lambda x: x * x, lambda x, t: jvp(lambda x: x * x, x, t), (3.0,))
    """
    point = _Point(f, tuple(args))
    forward = functools.partial(_flat_jvp, point, f_jvp)
    _compare_jvp(point, forward, _Settings(atol, rtol, eps), err_msg or f"jvp of `{name_of(f)}`")


def check_vjp(
    f: Function,
    f_vjp: Function,
    args: Operands,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check `f_vjp(*args)`, as `functools.partial(vjp, f)`, against central differences of `f` at `args`.

    Tolerances and `eps` are as for `check_grads`; `err_msg` comes in front of the message.

    Raises: DerivativeMismatchError.

    >>> from pellucid import vjp
    >>> check_vjp(lambda x: x * x, lambda x: vjp(lambda x: x * x, x), (3.0,))
    """
    point = _Point(f, tuple(args))
    what = err_msg or f"vjp of `{name_of(f)}`"
    _compare_vjp(
        point, functools.partial(_flat_vjp, point, f_vjp), _Settings(atol, rtol, eps), what
    )


# Orders -----------------------------------------------------------------------------------------------


def _check_orders(
    f: Function, args: Operands, names: list[str], order: int, last: int,
    modes: Sequence[str], settings: _Settings, what: str,
) -> None:  # fmt: skip
    """Check the derivative of `f`, itself a derivative of `order` - 1, and those of its derivatives."""
    point = _Point(f, args, names)
    for mode in modes:
        derivative = f"{_MODES[mode]} of {what}"
        title = f"order {order}, {derivative}"
        if mode == "rev":
            backward = functools.partial(_flat_vjp, point, functools.partial(vjp, f))
            _compare_vjp(point, backward, settings, title)
            derived: Any = point.pulled_back
            more, more_names = (), point.names
        else:
            push = functools.partial(jvp, f) if mode == "fwd" else functools.partial(_linearized, f)
            forward = functools.partial(_flat_jvp, point, push)
            _compare_jvp(point, forward, settings, title)
            derived = functools.partial(_pushed_forward, forward, len(point.moving))
            more = tuple(point.direction(1))
            more_names = [*point.names, *(f"the tangent of {name}" for name in point.names)]
        if order < last:
            arguments = (*point.moving, *more)
            _check_orders(
                derived, arguments, more_names, order + 1, last, modes, settings, derivative
            )


def _linearized(f: Function, primals, tangents) -> tuple[Any, Any]:
    value, push = linearize(f, *primals)
    return value, push(*tangents)


def _pushed_forward(forward: Function, n: int, *operands):
    """Results and tangents, for operands that are as many primals as tangents."""
    return forward(operands[:n], operands[n:])


# One derivative ---------------------------------------------------------------------------------------


class _Settings(NamedTuple):
    atol: Tolerance
    rtol: Tolerance
    eps: float | None

    def allowed(self, expected: np.ndarray, dtype: Any) -> np.ndarray:
        """How far values of `dtype` may be from `expected`."""
        atol, rtol = _tolerance(self.atol, dtype), _tolerance(self.rtol, dtype)
        return expected.size * (atol + rtol * np.abs(expected))


def _tolerance(tolerance: Tolerance, dtype) -> float:
    by_dtype = tolerance if isinstance(tolerance, Mapping) else {}
    if tolerance is not None and not isinstance(tolerance, Mapping):
        return tolerance
    by_name = {np.dtype(key).name: value for key, value in by_dtype.items()}
    return (_TOLERANCES | by_name).get(np.dtype(dtype).name, _OF_NARROW_FLOATS)


class _Point:
    """A function at its arguments, seen as one of their floating and complex leaves alone, which can be moved."""

    def __init__(self, f: Function, args: Operands, names: list[str] | None = None) -> None:
        check_callable(f, "check_jvp and check_vjp")
        self.f = f
        with_paths, self.structure = tree_flatten_with_path(args)
        self.leaves = [leaf for _, leaf in with_paths]
        self.at = [i for i, leaf in enumerate(self.leaves) if _moves(leaf)]
        self.moving = [self.leaves[i] for i in self.at]
        every = names or [shown_path("args", path) for path, _ in with_paths]
        self.names = [every[i] for i in self.at]

    def arguments(self, moving: Operands) -> Any:
        """The arguments with other values of the leaves that move."""
        leaves = list(self.leaves)
        for i, leaf in strict_zip(self.at, moving):
            leaves[i] = leaf
        return self.structure.unflatten(leaves)

    def tangents(self, moving: Operands) -> Any:
        """Tangents for all arguments, of which those of the leaves that move are given."""
        tangents = [np.zeros(np.shape(leaf), dtypes.float0) for leaf in self.leaves]
        for i, tangent in strict_zip(self.at, moving):
            tangents[i] = tangent
        return self.structure.unflatten(tangents)

    def value(self, moving: Operands) -> Values:
        """The floating and complex results."""
        return [x for x in tree_flatten(self.f(*self.arguments(moving)))[0] if _moves(x)]

    def pulled_back(self, *moving: Any) -> Values:
        """The cotangents of the leaves that move, for cotangents equal to the results."""
        results, pull = _flat_vjp(self, functools.partial(vjp, self.f), *moving)
        return pull(results)

    def direction(self, seed: int) -> Values:
        """A random direction."""
        return _random_like(self.moving, seed)

    def differences(self, direction: Operands, eps: float | None) -> list[np.ndarray]:
        """How the results change along `direction`, by central differences."""
        step = eps or min((_best_step(x) for x in self.moving), default=1.0)
        ahead, behind = (
            [
                _wide(y)
                for y in self.value([*map(functools.partial(_moved, h), self.moving, direction)])
            ]
            for h in (step, -step)
        )
        with np.errstate(invalid="ignore"):  # infinity stays infinity, which is no change
            return [np.where(a == b, 0, a - b) / (2 * step) for a, b in strict_zip(ahead, behind)]


def _flat_jvp(point: _Point, f_jvp, moving: Operands, tangents: Operands):
    """Floating results of `f_jvp`, and their tangents."""
    results, out = f_jvp(point.arguments(moving), point.tangents(tangents))
    pairs = strict_zip(tree_flatten(results)[0], tree_flatten(out)[0])
    floating = [(x, t) for x, t in pairs if _moves(x)]
    return [x for x, _ in floating], [t for _, t in floating]


def _flat_vjp(point: _Point, f_vjp, *moving):
    """Floating results of `f_vjp`, and a function from their cotangents to those of the leaves that move."""
    results, pull = f_vjp(*point.arguments(moving))
    leaves, structure = tree_flatten(results)

    def flat_pull(cotangents: Operands) -> Values:
        live = iter(cotangents)
        every = [next(live) if _moves(x) else np.zeros(np.shape(x), dtypes.float0) for x in leaves]
        pulled_back = tree_flatten(tuple(pull(structure.unflatten(every))))[0]
        return [pulled_back[i] for i in point.at]

    return [x for x in leaves if _moves(x)], flat_pull


def _compare_jvp(point: _Point, forward, settings: _Settings, what: str) -> None:
    def disagreements(direction: Operands) -> list[str]:
        _, tangents = forward(point.moving, direction)
        expected = point.differences(direction, settings.eps)
        pairs = strict_zip(tangents, expected)
        return [
            f"result {i}: {text}"
            for i, (t, e) in enumerate(pairs)
            if (text := _disagreement(t, e, settings))
        ]

    direction = point.direction(0)
    values, tangents = forward(point.moving, direction)
    _check_values(point, values, settings, what)
    for x, t in strict_zip(values, tangents):
        if (type_of(x).shape, type_of(x).dtype) != (type_of(t).shape, type_of(t).dtype):
            raise DerivativeMismatchError(
                f"{what}: a tangent doesn't have the type of its result.",
                got=f"result: {type_of(x).text()}, tangent: {type_of(t).text()}",
            )
    _blame(point, direction, disagreements, what)


def _compare_vjp(point: _Point, backward, settings: _Settings, what: str) -> None:
    values, pull = backward(*point.moving)
    _check_values(point, values, settings, what)
    cotangents = _random_like(values, 1)
    pulled_back = pull(cotangents)

    def disagreements(direction: Operands) -> list[str]:
        expected = _product(point.differences(direction, settings.eps), cotangents)
        text = _disagreement(
            _product(pulled_back, direction), expected, settings, _narrowest(point.moving)
        )
        return [f"the projected cotangent: {text}"] if text else []

    _blame(point, point.direction(0), disagreements, what)


def _blame(point: _Point, direction: Operands, disagreements, what: str) -> None:
    """Raise DerivativeMismatchError if something disagrees along `direction`, by argument where one alone does too."""
    together = disagreements(direction)
    if not together:
        return
    still = [np.zeros_like(t) for t in direction]
    by_argument = [
        f"along {name}, {text}"
        for i, name in enumerate(point.names)
        for text in disagreements([*still[:i], direction[i], *still[i + 1 :]])
    ]
    raise DerivativeMismatchError(
        f"{what}: the derivative disagrees with central differences.",
        got=(by_argument or [f"along all arguments, {text}" for text in together])[:4],
        do="Where the function has a kink or large derivatives, move the point, or set `eps`, `atol` and `rtol`.",
    )


def _check_values(point: _Point, values: Operands, settings: _Settings, what: str) -> None:
    for i, (value, expected) in enumerate(strict_zip(values, point.value(point.moving))):
        text = _disagreement(
            value, _wide(expected), settings, words=("its value is", "the function's own")
        )
        if text:
            raise DerivativeMismatchError(f"{what}: result {i} is not the function's.", got=text)


def _disagreement(
    actual,
    expected,
    settings: _Settings,
    dtype=None,
    words: tuple[str, str] = ("the derivative is", "central differences give"),
) -> str | None:
    """Where `actual` is furthest from `expected`, if that is further than allowed."""
    allowed = settings.allowed(expected, dtype or type_of(actual).dtype)
    with np.errstate(invalid="ignore"):
        distance = np.where(_wide(actual) == expected, 0, np.abs(_wide(actual) - expected))
    too_far = ~(distance <= allowed)  # NaN is too far from everything but NaN
    too_far &= ~(np.isnan(_wide(actual)) & np.isnan(expected))
    if not too_far.any():
        return None
    worst = np.unravel_index(
        np.argmax(np.where(too_far, np.nan_to_num(distance, nan=np.inf), -1)), too_far.shape
    )
    place = f"at {tuple(map(int, worst))} " if worst else ""
    return (
        f"{place}{words[0]} {_wide(actual)[worst]:.6g}, {words[1]} {expected[worst]:.6g} "
        f"(allowed difference {allowed[worst]:.2g})"
    )


# Leaves -------------------------------------------------------------------------------------------------


def _moves(x) -> bool:
    """Whether `x` has a tangent."""
    return dtypes.is_inexact(type_of(x).dtype)


def _wide(x) -> np.ndarray:
    """`x` in double precision."""
    kind = np.complex128 if np.dtype(type_of(x).dtype).kind == "c" else np.float64
    return np.asarray(x).astype(kind)


def _like(x, value: np.ndarray):
    """`value` as the kind of thing that `x` is: a number, or an array of its dtype."""
    return value.item() if isinstance(x, (float, complex)) else value.astype(type_of(x).dtype)


def _moved(step: float, x, direction):
    return _like(x, np.asarray(_wide(x) + step * _wide(direction)))


def _random_like(leaves: Operands, seed: int) -> Values:
    rng = np.random.default_rng(seed)

    def draw(x):
        value = np.asarray(rng.standard_normal(np.shape(x)))
        if np.dtype(type_of(x).dtype).kind == "c":
            value = value + 1j * rng.standard_normal(np.shape(x))
        return _like(x, value)

    return [draw(x) for x in leaves]


def _product(xs: Operands, ys: Operands) -> np.ndarray:
    """The real part of the sum of products, which transposition keeps."""
    return np.asarray(sum(np.sum(_wide(x) * _wide(y)).real for x, y in strict_zip(xs, ys)))


def _narrowest(leaves: Operands):
    return max(
        (type_of(x).dtype for x in leaves), key=lambda d: dtypes.finfo(d).eps, default=np.float64
    )


def _best_step(x) -> float:
    return float(dtypes.finfo(type_of(x).dtype).eps) ** (1 / 3)


__all__ = ["check_grads", "check_jvp", "check_vjp"]
