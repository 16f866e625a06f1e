"""`vectorize`: functions of small arrays that are mapped over the axes before them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    library_code,
    users_function,
    wrapping,
)
from pellucid._machine.ir import Operands
from pellucid._machine.primitives.movement import broadcast_shapes
from pellucid._machine.tracing import name_of
from pellucid._machine.transforms import check_callable
from pellucid._machine.transforms.vmap import vmap

from .creation import asarray
from .manipulation import expand_dims, squeeze
from .promotion import note_rank_promotion

CoreDims = tuple[str, ...]

_NAME = r"(?:[^\W\d]\w*|\d+)"
_DIMS = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_SIGNATURE = re.compile(rf"{_DIMS}(?:,{_DIMS})*->{_DIMS}(?:,{_DIMS})*")


def parse_signature(signature: str) -> tuple[list[CoreDims], list[CoreDims]]:
    """Names of the dimensions of arguments and of results that a gufunc signature lists.

    Raises: ArgumentValueError for text that is no signature.

    >>> parse_signature("(m,k),(k,n)->(m,n)")
    ([('m', 'k'), ('k', 'n')], [('m', 'n')])
    """
    compact = "".join(signature.split())
    if not _SIGNATURE.fullmatch(compact):
        raise ArgumentValueError(
            "vectorize got text that is no signature of a generalized ufunc.",
            got=f"got {signature!r}",
            do='Write it as "(m,k),(k,n)->(m,n)".',
        )
    arguments, results = compact.split("->")
    return _listed_dims(arguments), _listed_dims(results)


def _listed_dims(text: str) -> list[CoreDims]:
    return [tuple(re.findall(_NAME, dims)) for dims in re.findall(_DIMS, text)]


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """`pyfunc`, a function of small arrays, mapped over all axes before theirs, which broadcast.

    `signature`, as "(m,k),(k,n)->(m,n)", names the dimensions that `pyfunc` sees and gives, or states their sizes, as
    "(3),(3)->(3)"; by default it takes and gives scalars. Positions or names of arguments in `excluded` go to `pyfunc` as they are, and so does None.

    Raises: ShapeError for arguments that don't have the dimensions or don't broadcast, ArgumentTypeError for another
    number of arguments than the signature has, ArgumentValueError if some of them are None.
    Source: NumPy, generalized universal function API.

    >>> import pellucid.numpy as jnp
    >>> vectorize(jnp.vdot, signature="(n),(n)->()")(np.ones((2, 3)), np.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    check_callable(pyfunc, "vectorize")
    wrong = [x for x in excluded if not isinstance(x, (int, str)) or (isinstance(x, int) and x < 0)]
    if wrong:
        raise ArgumentTypeError(
            "vectorize: `excluded` must hold positions, from 0, and names of arguments.",
            got=f"got {wrong[0]!r}",
        )
    pyfunc = users_function(pyfunc)
    dims = None if signature is None else parse_signature(signature)

    @library_code
    @wrapping(pyfunc)
    def call_vectorized(*args: Any, **kwargs: Any) -> Any:
        fixed = {i for i, x in enumerate(args) if i in excluded or x is None}
        mapped_names = [name for name in kwargs if name not in excluded]
        if mapped_names and signature is not None:
            raise ArgumentTypeError(
                f"vectorize: `{name_of(pyfunc)}` has a signature, so its mapped arguments have positions.",
                got=f"by keyword: {', '.join(mapped_names)}",
            )
        values = [x for i, x in enumerate(args) if i not in fixed]
        values += [kwargs[name] for name in mapped_names]
        if not values and any(x is None for x in args):
            raise ArgumentValueError(
                f"vectorize: `{name_of(pyfunc)}` was called without an array.", got="got None alone"
            )

        def call_on_values(*xs: Any) -> Any:
            arguments = iter(xs)
            positional = [x if i in fixed else next(arguments) for i, x in enumerate(args)]
            return pyfunc(*positional, **(kwargs | dict(zip(mapped_names, arguments, strict=True))))

        inputs, outputs = dims if dims is not None else ([()] * len(values), None)
        if len(inputs) != len(values):
            has_none = any(x is None for x in args)
            raise (ArgumentValueError if has_none else ArgumentTypeError)(
                f"vectorize: `{name_of(pyfunc)}` was called with another number of arguments than its signature has.",
                got=f"signature {signature!r}, {len(values)} arguments{' besides None' if has_none else ''}",
            )
        return _map(call_on_values, [asarray(x) for x in values], inputs, outputs, name_of(pyfunc))

    return call_vectorized


def _map(
    function: Callable[..., Any],
    values: Operands,
    inputs: Sequence[CoreDims],
    outputs: Sequence[CoreDims] | None,
    name: str,
) -> Any:
    """`function` mapped over the leading axes, those before the core axes in `inputs`."""
    sizes: dict[str, int] = {}
    fronts = [
        _leading_dimensions(x.shape, dims, sizes, f"argument {i} of `{name}`")
        for i, (x, dims) in enumerate(zip(values, inputs, strict=True))
    ]
    try:
        shape = broadcast_shapes(*fronts)
    except ValueError:
        raise ShapeError(
            f"vectorize: the arguments of `{name}` don't broadcast.",
            got=[f"argument {i}: {x.shape}" for i, x in enumerate(values)],
        ) from None

    if len({len(front) for x, front in zip(values, fronts, strict=True) if x.ndim}) > 1:
        note_rank_promotion(f"vectorize of `{name}`", [x.shape for x in values])

    def call_checked(*xs: Any) -> Any:
        result = function(*xs)
        if outputs is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(outputs):
            raise ArgumentTypeError(
                f"vectorize: `{name}` returned another number of arrays than its signature has.",
                got=f"{len(results)} instead of {len(outputs)}",
            )
        for i, (x, dims) in enumerate(zip(results, outputs, strict=True)):
            if _leading_dimensions(np.shape(x), dims, sizes, f"result {i} of `{name}`"):
                raise ShapeError(
                    f"vectorize: a result of `{name}` has more dimensions than its signature says.",
                    got=f"result {i}: {np.shape(x)}, signature ({','.join(dims)})",
                )
        return result

    # Leading axes of size 1 beside longer ones are squeezed: their element is shared.
    padded = [(1,) * (len(shape) - len(front)) + front for front in fronts]
    small = [
        squeeze(x, tuple([i for i, n in enumerate(front) if n == 1]))
        for x, front in zip(values, fronts, strict=True)
    ]
    mapped = call_checked
    alone = []
    for axis in reversed(range(len(shape))):
        in_axes = tuple([None if front[axis] == 1 else 0 for front in padded])
        if all(a is None for a in in_axes):
            alone.append(axis)
        else:
            mapped = vmap(mapped, in_axes)
    result = mapped(*small)
    if not alone:
        return result
    if isinstance(result, tuple):
        return tuple([expand_dims(x, tuple(alone)) for x in result])
    return expand_dims(result, tuple(alone))


def _leading_dimensions(
    shape: tuple[int, ...], dims: CoreDims, sizes: dict[str, int], what: str
) -> tuple[int, ...]:
    """The leading dimensions of `shape`; sizes of its core dimensions `dims` are compared with `sizes` or entered
    there.
    """
    n = len(dims)
    if len(shape) < n:
        raise ShapeError(
            f"vectorize: {what} has fewer dimensions than its signature says.",
            got=f"shape {shape}, signature ({','.join(dims)})",
        )
    for dim, size in zip(dims, shape[len(shape) - n :], strict=True):
        if dim.isdecimal() and size != int(dim):
            raise ShapeError(
                f"vectorize: {what} has another size than its signature says.",
                got=f"shape {shape}, signature ({','.join(dims)})",
            )
        if sizes.setdefault(dim, size) != size:
            raise ShapeError(
                f"vectorize: {what} has another size along a dimension named twice.",
                got=f"{dim!r}: {size}, before {sizes[dim]}",
            )
    return shape[: len(shape) - n]
