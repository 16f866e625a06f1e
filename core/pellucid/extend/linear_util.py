"""Functions under transformations, under the names of `jax.extend.linear_util`.

A `WrappedFun` is a function of flat values with a list of transformations around it. Each may keep one value from a call,
its auxiliary output, which whoever wrapped it reads after the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from pellucid._machine.base.errors import ArgumentTypeError, PellucidError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.jaxpr import DebugInfo
from pellucid._machine.tracing.function import name_of


class StoreException(PellucidError):
    """An auxiliary output was read before the call that sets it, or was set twice.

    >>> keeping = transformation_with_aux2(lambda inner, store, x: store.store(x))
    >>> _, read = keeping(wrap_init(abs))
    >>> read()
    Traceback (most recent call last):
        ...
    pellucid.extend.linear_util.StoreException: an auxiliary output was read before the function was called.
      Call `call_wrapped` first.
    """


class Store:
    """The auxiliary output of one transformation: written once, by the call."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, val: Any) -> None:
        """Keep `val`; raises StoreException where there is one already."""
        if self._values:
            raise StoreException(
                "an auxiliary output is written once.",
                got=repr(val),
                do="Wrap the function anew for each call.",
            )
        self._values.append(val)

    @property
    def val(self) -> Any:
        """The value; raises StoreException before there is one."""
        if not self._values:
            raise StoreException(
                "an auxiliary output was read before the function was called.",
                do="Call `call_wrapped` first.",
            )
        return self._values[0]

    def __bool__(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function with transformations around it; the one that was added last runs first.

    >>> @transformation2
    ... def negated(f, x):
    ...     return -f(x)
    >>> negated(wrap_init(abs)).call_wrapped(-3)
    -3
    """

    __slots__ = ("_chain", "debug_info", "f", "params", "stores")

    def __init__(
        self,
        f: Function,
        chain: tuple[tuple[Function, Function, tuple[Any, ...]], ...],
        stores: tuple[Store | None, ...],
        params: tuple[tuple[str, Any], ...],
        debug_info: DebugInfo | None,
    ) -> None:
        self.f, self.stores = f, stores
        self.params, self.debug_info = params, debug_info
        self._chain = chain

    @property
    def __name__(self) -> str:
        return name_of(self.f)

    @property
    def transforms(self) -> tuple[tuple[Function, tuple[Any, ...]], ...]:
        """The transformations and their own arguments, the one that runs first at the front."""
        return tuple([(definition, arguments) for definition, _, arguments in self._chain])

    def wrap(
        self, definition: Function, around: Function, arguments: tuple[Any, ...], store: Any
    ) -> WrappedFun:
        """This function under one more transformation: `around(inner, *arguments, *args, **kwargs)`."""
        chain = ((definition, around, arguments), *self._chain)
        return WrappedFun(self.f, chain, (store, *self.stores), self.params, self.debug_info)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function with all its transformations."""
        call: Function = functools.partial(self.f, **dict(self.params))
        for _, around, arguments in reversed(self._chain):
            call = functools.partial(around, call, *arguments)
        return call(*args, **kwargs)

    def __hash__(self) -> int:
        return hash((self.f, self.transforms, self.params))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and (self.f, self.transforms, self.params) == (
            other.f, other.transforms, other.params
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"WrappedFun({self.__name__}, {len(self._chain)} transformations)"


def wrap_init(
    f: Function, params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """`f` without transformations; `params` are keyword arguments of each call.

    Raises: ArgumentTypeError for what can't be called.

    >>> wrap_init(int, {"base": 2}).call_wrapped("101")
    5
    """
    if not callable(f):
        raise ArgumentTypeError("wrap_init needs a function.", got=f"f: {type(f).__name__}")
    return WrappedFun(f, (), (), tuple(sorted((params or {}).items())), debug_info)


def transformation2(transformer: Function) -> Callable[..., WrappedFun]:
    """A constructor of WrappedFuns from (WrappedFun, *arguments), by `transformer(inner, *arguments, *args,
    **kwargs)`.

    >>> shifted = transformation2(lambda inner, by, x: inner(x + by))
    >>> shifted(wrap_init(abs), -5).call_wrapped(3)
    2
    """

    def wrap(fun: WrappedFun, *arguments: Any) -> WrappedFun:
        return fun.wrap(transformer, transformer, arguments, None)

    return functools.update_wrapper(wrap, transformer)


def transformation_with_aux2(transformer: Function) -> Callable[..., tuple[WrappedFun, Function]]:
    """Like `transformation2`, of `transformer(inner, store, *arguments, *args, **kwargs)`, which calls `store.store(value)`.

    What it makes is (WrappedFun, function that gives the stored value after the call).

    >>> @transformation_with_aux2
    ... def signed(inner, store, x):
    ...     store.store(x < 0)
    ...     return inner(x)
    >>> fun, is_negative = signed(wrap_init(abs))
    >>> fun.call_wrapped(-3), is_negative()
    (3, True)
    """

    def wrap(fun: WrappedFun, *arguments: Any) -> tuple[WrappedFun, Function]:
        store = Store()

        def around(inner: Function, *values: Any, **kwargs: Any) -> Any:
            return transformer(inner, store, *values, **kwargs)

        return fun.wrap(transformer, around, arguments, store), lambda: store.val

    return functools.update_wrapper(wrap, transformer)


def _through(generator: Any, inner: Function) -> Any:
    """The second item of `generator`, which first yields (args, kwargs) for `inner` and then receives its result."""
    args, kwargs = next(generator)
    try:
        return generator.send(inner(*args, **kwargs))
    finally:
        generator.close()  # the generator may be in a block that set the current trace


def transformation(generator: Function) -> Callable[..., WrappedFun]:
    """Like `transformation2`, of a generator `generator(*arguments, *args, **kwargs)`.

    It yields (args, kwargs) of the inner function, gets the result, and yields its own.

    >>> @transformation
    ... def doubled(x):
    ...     y = yield (x,), {}
    ...     yield 2 * y
    >>> doubled(wrap_init(abs)).call_wrapped(-3)
    6
    """

    @functools.wraps(generator)
    def transformer(inner: Function, *values: Any, **kwargs: Any) -> Any:
        return _through(generator(*values, **kwargs), inner)

    return transformation2(transformer)


def transformation_with_aux(generator: Function) -> Callable[..., tuple[WrappedFun, Function]]:
    """Like `transformation`, of a generator that yields (result, auxiliary output) last.

    What it makes is (WrappedFun, function that gives the auxiliary output after the call).

    >>> @transformation_with_aux
    ... def counted(*args):
    ...     y = yield args, {}
    ...     yield y, len(args)
    >>> fun, count = counted(wrap_init(max))
    >>> fun.call_wrapped(4, 7), count()
    (7, 2)
    """

    @functools.wraps(generator)
    def transformer(inner: Function, store: Store, *values: Any, **kwargs: Any) -> Any:
        result, auxiliary = _through(generator(*values, **kwargs), inner)
        store.store(auxiliary)
        return result

    return transformation_with_aux2(transformer)


def merge_linear_aux(aux1: Function, aux2: Function) -> tuple[bool, Any]:
    """The auxiliary output of whichever of two functions was called, and whether that was the first.

    Raises: StoreException where neither or both were called.

    >>> keeping = transformation_with_aux2(lambda inner, store, x: store.store(x))
    >>> (first, aux1), (_, aux2) = keeping(wrap_init(abs)), keeping(wrap_init(abs))
    >>> first.call_wrapped(3)
    >>> merge_linear_aux(aux1, aux2)
    (True, 3)
    """
    outputs = []
    for is_first, auxiliary in ((True, aux1), (False, aux2)):
        try:
            outputs.append((is_first, auxiliary()))
        except StoreException:
            continue
    if len(outputs) != 1:
        raise StoreException(
            "exactly one of two functions gives the auxiliary output.",
            got="both were called" if outputs else "neither was called",
        )
    return outputs[0]


def cache(call: Function) -> Function:
    """`call(fun, *args)`, cached for equal `fun` and arguments; auxiliary outputs are stored again on a hit.

    >>> run = cache(lambda fun, x: print("runs") or fun.call_wrapped(x))
    >>> run(wrap_init(abs), -3), run(wrap_init(abs), -3)
    runs
    (3, 3)
    """
    results: dict[Any, tuple[Any, Iterable[Store | None]]] = {}

    @functools.wraps(call)
    def call_cached(fun: WrappedFun, *args: Any) -> Any:
        key = (fun, args)
        if key not in results:
            results[key] = call(fun, *args), fun.stores
            return results[key][0]
        result, stores = results[key]
        for store, earlier in strict_zip(fun.stores, stores):
            if store is not None and store is not earlier and earlier:
                store.store(earlier.val)
        return result

    return call_cached


__all__ = [
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]
