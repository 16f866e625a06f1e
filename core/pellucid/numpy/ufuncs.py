"""Universal functions: elementwise functions with `reduce`, `accumulate`, `at`, `outer` and `reduceat`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    UnsupportedError,
    is_static,
    public_functions,
)
from pellucid._machine.higher_order.loops import fori_loop, scan
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid._machine.xla.calls import PjitFunction

from . import cumulative, elementwise, guarded_formulas, reductions
from .annotations import Axis
from .creation import arange, asarray, full
from .joining import concatenate
from .manipulation import broadcast_to, moveaxis, ravel, reshape, where
from .promotion import aval_of, known_int, refuse_out
from .vectorized import vectorize


class _UfuncType(type):
    """Metaclass of `ufunc`: compiled functions with a ufunc's methods count as instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        has_methods = hasattr(instance, "reduceat") and not isinstance(instance, type)
        return super().__instancecheck__(instance) or has_methods


class ufunc(metaclass=_UfuncType):
    """`func`, an elementwise function of `nin` operands that gives `nout` results, with a ufunc's methods.

    `identity` is the value that changes nothing; without it there is no reduction of no elements. `call`, `reduce`,
    `accumulate`, `at` and `reduceat` replace the general methods, which apply `func` step by step.
    Raises: ArgumentValueError for numbers of operands that a method doesn't fit.

    >>> ufunc(lambda x, y: x * y + 1, 2, 1).reduce(jnp.array([1, 2, 3]))
    Array(10, dtype=int32)
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self.nin, self.nout = known_int("ufunc", "nin", nin), known_int("ufunc", "nout", nout)
        self.nargs = self.nin if nargs is None else nargs
        self.identity = identity
        self.__name__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self._stated = func, call
        self._function = call or vectorize(func)
        self._methods = {"reduce": reduce, "accumulate": accumulate, "at": at, "reduceat": reduceat}

    def __repr__(self) -> str:
        return f"<jnp.ufunc {self.__name__!r}>"

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{self!r} can't be changed: its {name} is fixed.")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{self!r} can't be changed: its {name} is fixed.")
        super().__delattr__(name)

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and self._identifier() == other._identifier()

    def __hash__(self) -> int:
        return hash(self._identifier())

    def _identifier(self) -> tuple[Any, ...]:
        return self._stated, self.nin, self.nout, self.nargs, self.identity, *self._methods.values()

    def __call__(self, *args: ArrayLike) -> Any:
        return self._function(*args)

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ArgumentValueError(
                f"{self.__name__}.{method} needs a function of two operands with one result.",
                got=f"{self.nin} operands, {self.nout} results",
            )

    def reduce(
        self,
        a: ArrayLike,
        axis: int | tuple[int, ...] | None = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Any:
        """The elements of `a` along `axis` combined from the first on; the identity if there are none.

        >>> jnp.add.reduce(jnp.array([1, 2, 3]))
        Array(6, dtype=int32)
        """
        self._check_binary("reduce")
        refuse_out(f"{self.__name__}.reduce", out)
        if where is not None and self.identity is None and initial is None:
            raise ArgumentValueError(
                f"{self.__name__}.reduce needs an initial value where elements are left out.",
                do="Give `initial=`.",
            )
        if isinstance(axis, int):
            canonical_axis(axis, aval_of(f"{self.__name__}.reduce", a).ndim)
        if (method := self._methods["reduce"]) is not None:
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            if dtype is not None:
                options["dtype"] = dtype
            more = {"initial": initial, "where": where}
            return method(a, **options, **{k: v for k, v in more.items() if v is not None})
        return self._reduce(a, axis, dtype, keepdims, initial, where)

    def _reduce(
        self,
        a: ArrayLike,
        axis: Axis,
        dtype: DTypeLike | None,
        keepdims: bool,
        initial: Any,
        mask: Any,
    ) -> Any:
        x = asarray(a, dtype=dtype)
        axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = sorted(canonical_axis(i, x.ndim) for i in axes)
        if len(axes) > 1 and self.identity is None:
            raise ArgumentValueError(
                f"{self.__name__}.reduce has an order along one axis only.", got=f"axes {axes}"
            )
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        rest = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        x = reshape(moveaxis(x, axes, range(len(axes))), (-1, *rest))
        start = self.identity if initial is None else initial
        if start is None:
            if not x.shape[0]:
                raise ArgumentValueError(
                    f"{self.__name__}.reduce has no identity for no elements.",
                    do="Give `initial=`.",
                )
            first, x = x[0], x[1:]
            masks = None
        else:
            first, masks = broadcast_to(asarray(start, dtype=x.dtype), rest), mask
        if is_static(x.shape[:1]) and not x.shape[0]:
            result_type = type_of(first)
        else:
            result_type = type_of(self(first, first if start is None else x[0]))
        first = first.astype(result_type.dtype)
        if masks is None:
            result, _ = scan(lambda y, each: (self(y, each).astype(y.dtype), None), first, x)
        else:
            chosen = broadcast_to(masks, aval_of("reduce", a).shape)
            chosen = reshape(moveaxis(chosen, axes, range(len(axes))), (-1, *rest))
            step = lambda y, each: (where(each[1], self(y, each[0]).astype(y.dtype), y), None)
            result, _ = scan(step, first, (x, chosen))
        result = reshape(result, shape) if keepdims else result
        return result if dtype is None else result.astype(dtype)

    def accumulate(
        self, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None, out: None = None
    ) -> Any:
        """All partial results of `reduce` along `axis`, in the shape of `a`.

        >>> jnp.add.accumulate(jnp.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
        """
        self._check_binary("accumulate")
        refuse_out(f"{self.__name__}.accumulate", out)
        if (method := self._methods["accumulate"]) is not None:
            return method(a, axis=axis, dtype=dtype)
        x = asarray(a, dtype=dtype)
        x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
        if not x.shape[axis]:
            return x
        x = moveaxis(x, axis, 0)
        first = x[0].astype(type_of(self(x[0], x[0])).dtype)

        def step(y: Array, each: Array) -> tuple[Any, Any]:
            result = self(y, each).astype(y.dtype)
            return result, result

        _, results = scan(step, first, x[1:])
        results = moveaxis(concatenate([first[None], results]), 0, axis)
        return results if dtype is None else results.astype(dtype)

    def at(
        self, a: ArrayLike, indices: ArrayLike, b: ArrayLike | None = None, *, inplace: bool = True
    ) -> Any:
        """`a` with the function applied at `indices`, with operands `b`, once per occurrence of an index.

        Pass `inplace=False`.

        >>> jnp.add.at(jnp.array([1, 2]), jnp.array([0, 0]), 5, inplace=False)
        Array([11,  2], dtype=int32)
        """
        if inplace:
            raise UnsupportedError(
                f"{self.__name__}.at can't change its argument: arrays are immutable.",
                do="Pass inplace=False, and use the result.",
            )
        x = asarray(a)
        if (method := self._methods["at"]) is not None and x.dtype != bool:
            return method(x, indices, b)
        if self.nin == 1:
            return x.at[indices].set(self(x[indices]).astype(x.dtype))
        self._check_binary("at")
        places = ravel(reshape(arange(x.size), x.shape)[indices])
        values = ravel(broadcast_to(asarray(b), x[indices].shape))

        def step(i: Array, flat: Array) -> Any:
            place = places[i]
            return flat.at[place].set(self(flat[place], values[i]).astype(flat.dtype))

        return reshape(fori_loop(0, places.size, step, ravel(x)), x.shape)

    def reduceat(
        self,
        a: ArrayLike,
        indices: ArrayLike,
        axis: int = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Any:
        """`reduce` of the slices of `a` along `axis` from each index to the next; one element where the next isn't larger.

        >>> jnp.add.reduceat(jnp.arange(4), jnp.array([0, 2]))
        Array([1, 5], dtype=int32)
        """
        self._check_binary("reduceat")
        refuse_out(f"{self.__name__}.reduceat", out)
        x = asarray(a, dtype=dtype)
        axis = canonical_axis(axis, x.ndim)
        x, starts = moveaxis(x, axis, 0), asarray(indices)
        if starts.ndim != 1:
            raise ArgumentValueError(
                f"{self.__name__}.reduceat needs a vector of indices.", got=type_of(starts).text()
            )
        n = x.shape[0]
        ends = concatenate([starts[1:], full((1,), n, starts.dtype)])
        ends = where(ends > starts, ends, starts + 1)
        along = (-1,) + (1,) * (x.ndim - 1)
        result = x[starts].astype(type_of(self(x[:1], x[:1])).dtype) if n else x[starts]

        def step(i: Array, y: Array) -> Any:
            is_inside = (i > starts) & (i < ends)
            return where(reshape(is_inside, along), self(y, x[i]).astype(y.dtype), y)

        return moveaxis(fori_loop(0, n, step, result), 0, axis)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Any:
        """The function of every element of `A` with every element of `B`: shape `(*A.shape, *B.shape)`.

        >>> jnp.add.outer(jnp.array([0, 10]), jnp.array([1, 2]))
        Array([[ 1,  2],
               [11, 12]], dtype=int32)
        """
        if self.nin != 2:
            raise ArgumentValueError(
                f"{self.__name__}.outer needs a function of two operands.",
                got=f"{self.nin} operands",
            )
        shape = aval_of(f"{self.__name__}.outer", A).shape
        n = aval_of(f"{self.__name__}.outer", B, 1).ndim
        return self(reshape(A, (*shape, *[1] * n)), B)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """`func`, a function of `nin` scalars that gives `nout`, as a ufunc that maps over arrays.

    Result of its calls: the shape that the operands broadcast to; the dtype that `func` gives.
    Raises: ArgumentTypeError for a `func` that isn't a function.

    >>> frompyfunc(lambda x, y: x + y, 2, 1)(1, jnp.array([1, 2]))
    Array([2, 3], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


def _logical(reduce: Callable[..., Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    """The method `reduce` of a logical function, whose results are bools unless a dtype is stated."""

    def method(
        a: ArrayLike,
        axis: Axis,
        keepdims: bool,
        dtype: DTypeLike | None = None,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Any:
        a = a if dtype is None else asarray(a).astype(dtype)
        result = reduce(a, axis=axis, keepdims=keepdims, where=where)
        result = result if initial is None else combine(result, initial)
        return result if dtype is None else result.astype(dtype)

    return method


def _update_by(method: str) -> Callable[..., Any]:
    return lambda x, indices, b: getattr(x.at[indices], method)(b)


_FACTS = ("nin", "nout", "nargs", "identity")
_METHODS = ("reduce", "accumulate", "at", "outer", "reduceat", *_FACTS)


class _Fact:
    """Descriptor of an attribute that a ufunc always has, and other compiled functions only if it was set."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, function: Any, owner: Any) -> Any:
        if function is None or self.name not in function.__dict__:
            raise AttributeError(f"{function or owner!r} has no attribute {self.name!r}.")
        return function.__dict__[self.name]

    def __set__(self, function: Any, value: Any) -> None:
        self._check_changeable(function)
        function.__dict__[self.name] = value

    def __delete__(self, function: Any) -> None:
        self._check_changeable(function)
        self.__get__(function, None)
        del function.__dict__[self.name]

    def _check_changeable(self, function: Any) -> None:
        is_fixed = isinstance(function, ufunc)
        if is_fixed:
            raise AttributeError(f"{function.__name__} can't be changed: its {self.name} is fixed.")


def install() -> None:
    """Installs methods on functions that are ufuncs in the reference."""
    minus_infinity = -float("inf")
    binary: dict[str, dict[str, Any]] = {
        "add": {
            "identity": 0, "reduce": reductions.sum, "accumulate": cumulative.cumsum, "at": _update_by("add"),
        },
        "multiply": {
            "identity": 1, "reduce": reductions.prod, "accumulate": cumulative.cumprod, "at": _update_by("multiply"),
        },
        "subtract": {"at": _update_by("subtract")},
        "maximum": {"reduce": reductions.max, "at": _update_by("max")},
        "minimum": {"reduce": reductions.min, "at": _update_by("min")},
        "logical_and": {"identity": True, "reduce": _logical(reductions.all, elementwise.logical_and)},
        "logical_or": {"identity": False, "reduce": _logical(reductions.any, elementwise.logical_or)},
        "logical_xor": {"identity": False}, "bitwise_and": {"identity": -1}, "bitwise_or": {"identity": 0},
        "bitwise_xor": {"identity": 0}, "logaddexp": {"identity": minus_infinity},
        "logaddexp2": {"identity": minus_infinity},
    }  # fmt: skip
    for name, options in binary.items():
        _install(name, 2, options)
    _install("negative", 1, {})
    for name in _FACTS:
        setattr(PjitFunction, name, _Fact(name))


def _install(name: str, nin: int, options: dict[str, Any]) -> None:
    function = getattr(guarded_formulas if name.startswith("logaddexp") else elementwise, name)
    methods = ufunc(function, nin, 1, name=name, call=function, **options)
    for method in _METHODS:
        setattr(function, method, getattr(methods, method))


__all__ = ["frompyfunc", "ufunc"]

public_functions(__all__, globals())
