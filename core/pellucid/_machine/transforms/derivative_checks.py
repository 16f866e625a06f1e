"""Checks of derivatives against central differences along random directions.

A directional derivative costs two more evaluations of the function, however many arguments it has. Only if one
disagrees, each argument is perturbed alone, to report which of them is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    Function,
    PellucidError,
    dtypes,
    shown_path,
    strict_zip,
    tree_flatten,
    tree_flatten_with_path,
)
from pellucid._machine.ir import Operands, Values
from pellucid._machine.tracing import name_of, type_of

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
    """Checks the derivatives of `f` at `args` up to `order` against central differences.

    `modes` are "fwd" (`jvp`), "rev" (`vjp`) and "lin" (`linearize`); higher orders check all combinations. Tolerances
    are numbers, or numbers by dtype, and grow with the number of compared elements. `eps` is the step of the
    differences; the default, the cube root of machine epsilon, balances truncation and rounding errors.

    Raises: DerivativeMismatchError, an AssertionError, that names order, mode, argument and both numbers.

    >>> check_grads(lambda x: x * x * x, (np.float32(1.5),), order=2)
    >>> check_grads(lambda x: x * lax.stop_gradient(x), (np.float32(1.5),), order=1)
    Traceback (most recent call last):
      ...
    pellucid.errors.DerivativeMismatchError: order 1, jvp of `<lambda>`: ...
    """
    check_callable(f, "check_grads")
    if isinstance(modes, str):
        modes = (modes,)
    unknown = [mode for mode in modes if mode not in _MODES]
    if unknown or order < 1:
        raise ArgumentValueError(
            "check_grads needs an order of 1 or more, and modes among 'fwd', 'rev' and 'lin'.",
            got=f"order={order!r}, modes={tuple(modes)!r}",
        )
    check = _Check(f, args, _Settings(atol, rtol, eps))
    _check_orders(check, 1, order, modes, f"`{name_of(f)}`")


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

    Tolerances and `eps` are as for `check_grads`; `err_msg` comes before the message.

    Raises: DerivativeMismatchError.

    >>> from pellucid import jvp
    >>> check_jvp(lambda x: x * x, lambda x, t: jvp(lambda x: x * x, x, t), (3.0,))
    """
    check = _Check(f, args, _Settings(atol, rtol, eps))
    check.compare_jvp(f_jvp, err_msg or f"jvp of `{name_of(f)}`")


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

    Tolerances and `eps` are as for `check_grads`; `err_msg` comes before the message.

    Raises: DerivativeMismatchError.

    >>> from pellucid import vjp
    >>> check_vjp(lambda x: x * x, lambda x: vjp(lambda x: x * x, x), (3.0,))
    """
    check = _Check(f, args, _Settings(atol, rtol, eps))
    check.compare_vjp(f_vjp, err_msg or f"vjp of `{name_of(f)}`")


# Orders -----------------------------------------------------------------------------------------------


def _check_orders(check: _Check, order: int, last: int, modes: Sequence[str], what: str) -> None:
    """Checks a derivative of order `order`, and recursively the derivatives of it up to order `last`."""
    for mode in modes:
        derivative = f"{_MODES[mode]} of {what}"
        title = f"order {order}, {derivative}"
        names, more = check.names, ()
        if mode == "rev":
            check.compare_vjp(functools.partial(vjp, check.f), title)
            derived: Any = check.pulled_back
        else:
            push = functools.partial(jvp if mode == "fwd" else _linearize, check.f)
            check.compare_jvp(push, title)
            derived = functools.partial(_push_forward, check, push)
            names, more = (
                [*names, *(f"the tangent of {n}" for n in names)],
                _random_like(check.moving, 1),
            )
        if order < last:
            next_check = _Check(derived, (*check.moving, *more), check.settings, names)
            _check_orders(next_check, order + 1, last, modes, derivative)


def _linearize(f: Function, primals: Operands, tangents: Operands) -> tuple[Any, Any]:
    value, push = linearize(f, *primals)
    return value, push(*tangents)


def _push_forward(check: _Check, push: Function, *operands: Any) -> Any:
    """Results and tangents of `push` for operands that consist of primals and as many tangents."""
    n = len(check.moving)
    return check.pushed_forward(push, operands[:n], operands[n:])


# One derivative ---------------------------------------------------------------------------------------


class _Settings(NamedTuple):
    atol: Tolerance
    rtol: Tolerance
    eps: float | None

    def tolerance(self, expected: np.ndarray, dtype: Any) -> np.ndarray:
        """Maximum accepted distance of values of `dtype` from `expected`."""
        atol, rtol = _tolerance(self.atol, dtype), _tolerance(self.rtol, dtype)
        return expected.size * (atol + rtol * np.abs(expected))


def _tolerance(tolerance: Tolerance, dtype: Any) -> float:
    if tolerance is not None and not isinstance(tolerance, Mapping):
        return tolerance
    by_name = {np.dtype(key).name: value for key, value in (tolerance or {}).items()}
    return (_TOLERANCES | by_name).get(np.dtype(dtype).name, _OF_NARROW_FLOATS)


class _Check:
    """A function at its arguments, as a function of the floating and complex leaves, which can be perturbed."""

    def __init__(
        self, f: Function, args: Operands, settings: _Settings, names: list[str] | None = None
    ) -> None:
        check_callable(f, "check_jvp and check_vjp")
        self.f, self.settings = f, settings
        with_paths, self.structure = tree_flatten_with_path(tuple(args))
        self.leaves = [leaf for _, leaf in with_paths]
        self.at = [i for i, leaf in enumerate(self.leaves) if _moves(leaf)]
        self.moving = [self.leaves[i] for i in self.at]
        every = names or [shown_path("args", path) for path, _ in with_paths]
        self.names = [every[i] for i in self.at]

    def arguments(self, moving: Operands, others: Operands | None = None) -> Any:
        """The arguments, or `others`, with the perturbable leaves replaced by `moving`."""
        leaves = list(self.leaves if others is None else others)
        for i, leaf in strict_zip(self.at, moving):
            leaves[i] = leaf
        return self.structure.unflatten(leaves)

    def value(self, moving: Operands) -> Values:
        """The floating and complex results."""
        return [x for x in tree_flatten(self.f(*self.arguments(moving)))[0] if _moves(x)]

    def pushed_forward(self, f_jvp: Function, moving: Operands, tangents: Operands) -> Any:
        """Floating results of `f_jvp`, and their tangents."""
        still = [_no_tangent(leaf) for leaf in self.leaves]
        results, out = f_jvp(self.arguments(moving), self.arguments(tangents, still))
        pairs = strict_zip(tree_flatten(results)[0], tree_flatten(out)[0])
        floating = [(x, t) for x, t in pairs if _moves(x)]
        return [x for x, _ in floating], [t for _, t in floating]

    def pullback(self, f_vjp: Function, moving: Operands) -> tuple[Values, Function]:
        """(floating results of `f_vjp`, function from their cotangents to those of the perturbable leaves)."""
        results, pull = f_vjp(*self.arguments(moving))
        leaves, structure = tree_flatten(results)

        def flat_pull(cotangents: Operands) -> Values:
            live = iter(cotangents)
            every = [next(live) if _moves(x) else _no_tangent(x) for x in leaves]
            pulled_back = tree_flatten(tuple(pull(structure.unflatten(every))))[0]
            return [pulled_back[i] for i in self.at]

        return [x for x in leaves if _moves(x)], flat_pull

    def pulled_back(self, *moving: Any) -> Values:
        """Cotangents of the perturbable leaves, for cotangents equal to the results."""
        results, pull = self.pullback(functools.partial(vjp, self.f), moving)
        return pull(results)

    def differences(self, direction: Operands) -> list[np.ndarray]:
        """Change of the results along `direction`, by central differences."""
        epsilons = [_eps(type_of(x).dtype) for x in self.moving]
        step = self.settings.eps or min(epsilons, default=1.0) ** (1 / 3)
        ahead, behind = (
            [
                _wide(y)
                for y in self.value(
                    [*map(functools.partial(_step_along, h), self.moving, direction)]
                )
            ]
            for h in (step, -step)
        )
        with np.errstate(invalid="ignore"):  # a result that stays infinite doesn't change
            return [np.where(a == b, 0, a - b) / (2 * step) for a, b in strict_zip(ahead, behind)]

    def compare_jvp(self, f_jvp: Function, what: str) -> None:
        """Raises DerivativeMismatchError if `f_jvp(arguments, tangents)` is not the derivative."""

        def disagreements(direction: Operands) -> list[str]:
            _, tangents = self.pushed_forward(f_jvp, self.moving, direction)
            pairs = strict_zip(tangents, self.differences(direction))
            texts = [self.disagreement(t, expected) for t, expected in pairs]
            return [f"result {i}: {text}" for i, text in enumerate(texts) if text]

        values, tangents = self.pushed_forward(f_jvp, self.moving, _random_like(self.moving, 0))
        self.check_values(values, what)
        for x, t in strict_zip(values, tangents):
            if (type_of(x).shape, type_of(x).dtype) != (type_of(t).shape, type_of(t).dtype):
                raise DerivativeMismatchError(
                    f"{what}: a tangent doesn't have the type of its result.",
                    got=f"result: {type_of(x).text()}, tangent: {type_of(t).text()}",
                )
        self.blame(disagreements, what)

    def compare_vjp(self, f_vjp: Function, what: str) -> None:
        """Raises DerivativeMismatchError if `f_vjp(*arguments)` doesn't compute the right cotangents."""
        values, pull = self.pullback(f_vjp, self.moving)
        self.check_values(values, what)
        cotangents = _random_like(values, 1)
        pulled_back = pull(cotangents)
        dtypes_of = [type_of(x).dtype for x in self.moving]
        narrowest = max(dtypes_of, key=_eps, default=np.float64)

        def disagreements(direction: Operands) -> list[str]:
            expected = _inner_product(self.differences(direction), cotangents)
            text = self.disagreement(_inner_product(pulled_back, direction), expected, narrowest)
            return [f"the projected cotangent: {text}"] if text else []

        self.blame(disagreements, what)

    def blame(self, disagreements: Function, what: str) -> None:
        """Raises DerivativeMismatchError if there are disagreements, by argument if any disagrees alone."""
        direction = _random_like(self.moving, 0)
        together = disagreements(direction)
        if not together:
            return
        still = [np.zeros_like(t) for t in direction]
        by_argument = [
            f"along {name}, {text}"
            for i, name in enumerate(self.names)
            for text in disagreements([*still[:i], direction[i], *still[i + 1 :]])
        ]
        raise DerivativeMismatchError(
            f"{what}: the derivative disagrees with central differences.",
            got=(by_argument or [f"along all arguments, {text}" for text in together])[:4],
            do="Where the function has a kink or large derivatives, move the point, or set `eps`, `atol` and `rtol`.",
        )

    def check_values(self, values: Operands, what: str) -> None:
        """Raises DerivativeMismatchError if results differ from those of the function."""
        words = "its value is", "the function's own"
        for i, (value, expected) in enumerate(strict_zip(values, self.value(self.moving))):
            text = self.disagreement(value, _wide(expected), words=words)
            if text:
                raise DerivativeMismatchError(
                    f"{what}: result {i} is not the function's.", got=text
                )

    def disagreement(
        self,
        actual: Any,
        expected: Any,
        dtype: Any = None,
        words: tuple[str, str] = ("the derivative is", "central differences give"),
    ) -> str | None:
        """The largest distance between `actual` and `expected`, if it exceeds the tolerance."""
        allowed = self.settings.tolerance(expected, dtype or type_of(actual).dtype)
        actual = _wide(actual)
        with np.errstate(invalid="ignore"):
            distance = np.where(actual == expected, 0, np.abs(actual - expected))
        too_far = ~(distance <= allowed)  # NaN only agrees with NaN
        too_far &= ~(np.isnan(actual) & np.isnan(expected))
        if not too_far.any():
            return None
        worst = np.unravel_index(
            np.argmax(np.where(too_far, np.nan_to_num(distance, nan=np.inf), -1)), too_far.shape
        )
        place = f"at {tuple(map(int, worst))} " if worst else ""
        return (
            f"{place}{words[0]} {actual[worst]:.6g}, {words[1]} {expected[worst]:.6g} "
            f"(allowed difference {allowed[worst]:.2g})"
        )


# Leaves -------------------------------------------------------------------------------------------------


def _eps(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).eps)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # of two libraries


def _moves(x: Any) -> bool:
    """Whether `x` has tangents, so that it can be perturbed."""
    return dtypes.is_inexact(type_of(x).dtype)


def _no_tangent(x: Any) -> np.ndarray:
    return np.zeros(np.shape(x), dtypes.float0)


def _wide(x: Any) -> np.ndarray:
    """`x` in double precision."""
    kind = np.complex128 if np.dtype(type_of(x).dtype).kind == "c" else np.float64
    return np.asarray(x).astype(kind)


def _like(x: Any, value: np.ndarray) -> Any:
    """`value` in the form of `x`: a number, or an array of its dtype."""
    return value.item() if isinstance(x, (float, complex)) else value.astype(type_of(x).dtype)


def _step_along(step: float, x: Any, direction: Any) -> Any:
    return _like(x, np.asarray(_wide(x) + step * _wide(direction)))


def _random_like(leaves: Operands, seed: int) -> Values:
    rng = np.random.default_rng(seed)

    def draw(x: Any) -> Any:
        value = np.asarray(rng.standard_normal(np.shape(x)))
        if np.dtype(type_of(x).dtype).kind == "c":
            value = value + 1j * rng.standard_normal(np.shape(x))
        return _like(x, value)

    return [draw(x) for x in leaves]


def _inner_product(xs: Operands, ys: Operands) -> np.ndarray:
    """The real part of the sum of products, which is invariant under transposition."""
    return np.asarray(sum(np.sum(_wide(x) * _wide(y)).real for x, y in strict_zip(xs, ys)))


__all__ = ["check_grads", "check_jvp", "check_vjp"]
