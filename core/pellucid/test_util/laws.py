"""The laws of primitives as functions: each compares two ways to one value, for a function at some arguments.

They are what pellucid's own primitives are held to, for tests of primitives that others define. `f` is any function of
arrays with a tree of arrays as result, such as the one that binds the primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pellucid import export
from pellucid._machine.base import (
    ArgumentValueError,
    Function,
    PellucidError,
    dtypes,
    shown_path,
    strict_zip,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import eval_shape
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.runtime.platforms import devices
from pellucid._machine.tracing import name_of, type_of
from pellucid._machine.transforms.derivative_checks import check_grads
from pellucid._machine.transforms.gradient import vjp
from pellucid._machine.transforms.jvp import jvp
from pellucid._machine.transforms.vmap import vmap
from pellucid.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

TOLERANCES = {
    "float64": 1e-10, "complex128": 1e-10, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 1e-1,
}  # fmt: skip
"""By dtype, the tolerated difference between two ways to compute a value, relative to its largest element or to 1."""
_NARROW_TOLERANCE = 0.5
_BATCH_SIZE = 2


class LawError(PellucidError, AssertionError):
    """A function breaks a law of primitives."""

    __module__ = "pellucid.test_util"


# Laws -------------------------------------------------------------------------------------------------


def check_types(f: Function, args: Sequence[Any]) -> None:
    """Check that the types of the results of `f` are the same when it is traced and when it runs.

    Raises: LawError.

    >>> check_types(jnp.sin, (np.ones(3, np.float32),))
    """
    traced, _ = tree_flatten_with_path(eval_shape(f, *args))
    results, _ = tree_flatten_with_path(f(*args))
    _check_same_leaves("types", f, "traced", traced, "computed", results)
    for (path, expected), (_, value) in strict_zip(traced, results):
        if (expected.shape, expected.dtype) != (np.shape(value), type_of(value).dtype):
            raise LawError(
                f"types: `{name_of(f)}` gives another type than it states.",
                got=f"{shown_path('result', path)}: stated {expected.dtype}{[*expected.shape]}, got {type_of(value).text()}",
                do="Mend the type rule, or what computes the result.",
            )


def check_lowering(f: Function, args: Sequence[Any], *, tolerance: float | None = None) -> None:
    """Check that `f` returns the same results compiled and run eagerly.

    Raises: LawError.

    >>> check_lowering(jnp.sin, (np.ones(3, np.float32),))
    """
    _compare("lowering", f, jit(f)(*args), f(*args), "compiled", "eager", tolerance)


def check_batching(f: Function, args: Sequence[Any], *, tolerance: float | None = None) -> None:
    """Check that `vmap(f)` is a loop: over each argument alone, along each of its axes, and over all together.

    The second element of a batch has the elements of the first in reverse order.

    Raises: LawError.

    >>> check_batching(jnp.dot, (np.ones((2, 3), np.float32), np.ones(3, np.float32)))
    """
    args = [np.asarray(x) for x in args]
    each = [(i, axis) for i, x in enumerate(args) for axis in range(np.ndim(x) + 1)]
    axes_to_check = [tuple(axis if j == i else None for j in range(len(args))) for i, axis in each]
    if len(args) > 1:
        axes_to_check.append((0,) * len(args))
    for axes in axes_to_check:
        elements = [
            [x if axis is None or k == 0 else _reverse(x) for x, axis in strict_zip(args, axes)]
            for k in range(_BATCH_SIZE)
        ]
        batched = [
            x if axis is None else np.stack([row[i] for row in elements], axis)
            for i, (x, axis) in enumerate(strict_zip(args, axes))
        ]
        looped = tree_map(lambda *rows: np.stack(rows), *(f(*row) for row in elements))
        law = f"batching over axes {axes}"
        _compare(law, f, vmap(f, axes)(*batched), looped, "vmap", "loop", tolerance)


def check_adjoint(f: Function, args: Sequence[Any], *, tolerance: float | None = None) -> None:
    """Check that reverse mode is the adjoint of forward mode: <J t, c> = <t, J^T c> for random t and c.

    `check_grads` compares both with central differences; this law holds to all digits, and for linear functions.

    Raises: LawError; ArgumentValueError if no argument or no result is floating or complex.

    >>> check_adjoint(jnp.sin, (np.ones(3, np.float32),))
    """
    of_arguments = _Differentiable(f, args)
    rng = np.random.default_rng(0)
    tangents = [_random_like(x, rng) for x in of_arguments.points]
    results, pushed = jvp(of_arguments, tuple(of_arguments.points), tuple(tangents))
    if not results:
        raise ArgumentValueError(
            f"check_adjoint: `{name_of(f)}` has no floating or complex result."
        )
    cotangents = [_random_like(y, rng) for y in results]
    pulled = vjp(of_arguments, *of_arguments.points)[1](cotangents)
    forward, reverse = _pairing(pushed, cotangents), _pairing(tangents, pulled)
    scale = sum(float(np.sum(np.abs(np.asarray(x, np.complex128)))) for x in (*pushed, *pulled))
    allowed = max(1.0, scale) * max(_tolerance(x, tolerance) for x in (*pushed, *pulled))
    if not abs(forward - reverse) <= allowed:
        raise LawError(
            f"adjoint: reverse mode of `{name_of(f)}` isn't the adjoint of forward mode.",
            got=[f"<J t, c> = {forward:.9g}", f"<t, J^T c> = {reverse:.9g} (allowed difference {allowed:.2g})"],
            do="Mend the transpose rule, or the derivative that it transposes.",
        )  # fmt: skip


def check_sharding(f: Function, args: Sequence[Any], *, tolerance: float | None = None) -> None:
    """Check that `f` computes the same where an argument is cut over two devices, along each dimension of even size.

    Raises: LawError; ArgumentValueError with one device only, or if no dimension has an even size.

    >>> check_sharding(jnp.sin, (np.ones(4, np.float32),))
    """
    if len(devices()) < _BATCH_SIZE:
        raise ArgumentValueError(
            "check_sharding needs two devices.",
            got=f"{len(devices())} device",
            do='Set the option before the first array: `pl.config.update("jax_num_cpu_devices", 2)`.',
        )
    mesh = Mesh(np.array(devices()[:2]), ("parts",), axis_types=(AxisType.Auto,))
    cut = [
        (i, d) for i, x in enumerate(args) for d, n in enumerate(np.shape(x)) if n and n % 2 == 0
    ]
    if not cut:
        raise ArgumentValueError(
            "check_sharding: no dimension of an argument has an even size.",
            do="Pass larger arguments, or skip the law.",
        )
    expected = jit(f)(*args)
    for i, dimension in cut:
        spec = PartitionSpec(*[None] * dimension, "parts")
        placed = [
            device_put(x, NamedSharding(mesh, spec if j == i else PartitionSpec()))
            for j, x in enumerate(args)
        ]
        law = f"sharding of dimension {dimension} of argument {i}"
        _compare(law, f, jit(f)(*placed), expected, "two devices", "one device", tolerance)


def check_symbolic_sizes(
    f: Function, args: Sequence[Any], *, tolerance: float | None = None
) -> None:
    """Check that a batch of `f` can be exported for any batch size, and returns the same results as in this process.

    Raises: LawError; ExportError for what can't be exported, such as native code that nobody promises to keep.

    >>> check_symbolic_sizes(jnp.sin, (np.ones(3, np.float32),))
    """  # fmt: skip
    batched = jit(vmap(f))
    operands = [np.stack([np.asarray(x), _reverse(np.asarray(x)), np.asarray(x)]) for x in args]
    specs = export.symbolic_args_specs(tuple(operands), "b, ...")
    exported = export.export(batched)(*specs)
    law, names = "symbolic sizes", ("exported", "compiled")
    _compare(law, f, exported.call(*operands), batched(*operands), *names, tolerance)


def check_reference(
    f: Function,
    args: Sequence[Any],
    reference: Callable[..., Any],
    *,
    tolerance: float | None = None,
) -> None:
    """Check that `f` agrees with a `reference` of NumPy arrays, such as a function of SciPy.

    The reference gets floating and complex arguments in double precision.

    Raises: LawError.

    >>> check_reference(jnp.sin, (np.ones(3, np.float32),), np.sin)
    """
    expected = reference(*(_precise(np.asarray(x)) for x in args))
    _compare("reference", f, f(*args), expected, "got", "expected", tolerance)


LAWS: dict[str, Callable[..., None]] = {
    "types": lambda f, args, tolerance: check_types(f, args),
    "lowering": lambda f, args, tolerance: check_lowering(f, args, tolerance=tolerance),
    "derivatives": lambda f, args, tolerance: check_grads(f, tuple(args), 2),
    "adjoint": lambda f, args, tolerance: check_adjoint(f, args, tolerance=tolerance),
    "batching": lambda f, args, tolerance: check_batching(f, args, tolerance=tolerance),
    "sharding": lambda f, args, tolerance: check_sharding(f, args, tolerance=tolerance),
    "symbolic sizes": lambda f, args, tolerance: check_symbolic_sizes(f, args, tolerance=tolerance),
}
"""Every law that needs no reference, by name, in the order in which `check_laws` looks."""


def check_laws(
    f: Function,
    args: Sequence[Any],
    reference: Callable[..., Any] | None = None,
    *,
    skip: Collection[str] = (),
    tolerance: float | None = None,
) -> None:
    """Check all laws of `f` at `args`: types, lowering, derivatives, adjoint, batching, sharding, symbolic sizes, reference.

    `skip` names laws that don't apply; without `reference` that law is left out. `tolerance` is relative to the largest
    element of a value, or to 1; by default it follows from the dtype.

    Raises: LawError, or DerivativeMismatchError, of the first law that is broken; ArgumentValueError for an unknown name
    in `skip`.

    >>> check_laws(jnp.sin, (np.ones(4, np.float32),), np.sin)
    >>> check_laws(lambda x: x * pl.lax.stop_gradient(x), (np.ones(4, np.float32),))
    Traceback (most recent call last):
        ...
    pellucid.errors.DerivativeMismatchError: order 1, jvp of `<lambda>`: ...
    """
    unknown = {*skip} - {*LAWS, "reference"}
    if unknown:
        raise ArgumentValueError(
            "check_laws: `skip` must name laws.", got=f"got {sorted(unknown)}", do=f"There are {[*LAWS, 'reference']}."
        )  # fmt: skip
    for name, law in LAWS.items():
        if name not in skip:
            law(f, args, tolerance)
    if reference is not None and "reference" not in skip:
        check_reference(f, args, reference, tolerance=tolerance)


# Values -----------------------------------------------------------------------------------------------


class _Differentiable:
    """`f` as a function from its floating-point and complex arguments, `points`, to a list of such results."""

    def __init__(self, f: Function, args: Sequence[Any]) -> None:
        self.f = f
        self.leaves, self.structure = tree_flatten(tuple(args))
        self.at = [i for i, x in enumerate(self.leaves) if dtypes.is_inexact(type_of(x).dtype)]
        self.points = [np.asarray(self.leaves[i]) for i in self.at]
        if not self.at:
            raise ArgumentValueError(
                f"check_adjoint: `{name_of(f)}` has no floating or complex argument."
            )

    def __call__(self, *points: Any) -> list[Any]:
        leaves = list(self.leaves)
        for i, point in strict_zip(self.at, points):
            leaves[i] = point
        results, _ = tree_flatten(self.f(*self.structure.unflatten(leaves)))
        return [y for y in results if dtypes.is_inexact(type_of(y).dtype)]


def _compare(
    law: str, f: Function, got: Any, expected: Any, got_name: str, expected_name: str, tolerance: float | None
) -> None:  # fmt: skip
    """Raise LawError unless two trees of arrays are equal within the tolerance; NaN equals NaN."""
    got_leaves, _ = tree_flatten_with_path(got)
    expected_leaves, _ = tree_flatten_with_path(expected)
    _check_same_leaves(law, f, got_name, got_leaves, expected_name, expected_leaves)
    for (path, x), (_, y) in strict_zip(got_leaves, expected_leaves):
        allowed = _tolerance(x, tolerance)
        x, y = _precise(np.asarray(x)), _precise(np.asarray(y))
        if x.shape != y.shape:
            difference = f"{got_name} has shape {x.shape}, {expected_name} {y.shape}"
        else:
            is_close = x == y
            if np.issubdtype(x.dtype, np.inexact):
                scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0)))
                with np.errstate(invalid="ignore"):
                    is_close |= np.isnan(x) & np.isnan(y)
                    is_close |= np.abs(x - y) <= allowed * scale
            if is_close.all():
                continue
            index = tuple(int(i) for i in np.argwhere(~is_close)[0])
            difference = f"at {index} {got_name} has {x[index]!r}, {expected_name} {y[index]!r}"
        raise LawError(
            f"{law}: `{name_of(f)}` gives two values.",
            got=f"{shown_path('result', path)}: {difference} (allowed difference {allowed:.2g})",
        )


def _check_same_leaves(
    law: str, f: Function, first_name: str, first: Sequence[Any], second_name: str, second: Sequence[Any]
) -> None:  # fmt: skip
    """Raise LawError where two results have other leaves."""
    paths = [[shown_path("result", path) for path, _ in leaves] for leaves in (first, second)]
    if paths[0] != paths[1]:
        raise LawError(
            f"{law}: `{name_of(f)}` gives results of two structures.",
            got=[f"{name}: {', '.join(each) or 'nothing'}" for name, each in ((first_name, paths[0]), (second_name, paths[1]))],
        )  # fmt: skip


def _tolerance(x: Any, tolerance: float | None) -> float:
    if tolerance is not None:
        return tolerance
    dtype = type_of(x).dtype
    return TOLERANCES.get(dtype.name, _NARROW_TOLERANCE) if dtypes.is_inexact(dtype) else 0.0


def _precise(x: np.ndarray) -> np.ndarray:
    """Floating and complex elements in double precision; others as they are."""
    if not dtypes.is_inexact(x.dtype):
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _reverse(x: Any) -> Any:
    """The elements of `x` in reverse order."""
    return np.ravel(x)[::-1].reshape(np.shape(x))


def _random_like(x: Any, rng: np.random.Generator) -> np.ndarray:
    aval = type_of(x)
    value = rng.uniform(-1, 1, aval.shape)
    if aval.dtype.kind == "c":
        value = value + 1j * rng.uniform(-1, 1, aval.shape)
    return np.asarray(value, aval.dtype)


def _pairing(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the sum of products of two lists of arrays, without conjugation."""
    return float(
        sum(
            np.sum(np.asarray(x, np.complex128) * np.asarray(y, np.complex128)).real
            for x, y in strict_zip(xs, ys)
        )
    )
