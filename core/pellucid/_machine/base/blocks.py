"""Context managers that also decorate functions, including jitted ones and their stages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

P = ParamSpec("P")

_STAGES = ("trace", "lower", "eval_shape")
"""Methods of a jitted function that trace it, as a call does."""


class ContextBlock(contextlib._GeneratorContextManager[None]):  # pyright: ignore[reportPrivateUsage]  # contextlib names no other base
    """A context manager that, as a decorator, wraps calls of the function, and the tracing methods of a jitted
    function.

    `maker` is the function that created it; it is pickled as a call of `maker`.
    """

    def __init__(self, maker: Any, func: Any, args: Any, kwds: Any) -> None:
        super().__init__(func, args, kwds)
        self.maker = maker

    def __reduce__(self) -> Any:
        return functools.partial(self.maker, *self.args, **self.kwds), ()

    def _recreate_cm(self) -> Any:
        return self.maker(*self.args, **self.kwds)

    def __call__(self, func: Any) -> Any:
        inner: Any = super().__call__(func)
        for stage in _STAGES:
            # Copied from the jitted function along with its other attributes.
            if stage in vars(inner):
                setattr(inner, stage, super().__call__(getattr(func, stage)))
        return inner


def block(function: Callable[P, Iterator[None]]) -> Callable[P, ContextBlock]:
    """Like `contextlib.contextmanager`, for context managers that users may put above `@jit`.

    >>> @block
    ... def quietly():
    ...     yield
    >>> quietly()(pl.jit(lambda x: x)).lower(1.0).compile()(1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    generator: Callable[..., Any] = function

    @functools.wraps(function)
    def make_block(*args: P.args, **kwargs: P.kwargs) -> ContextBlock:
        return ContextBlock(make_block, generator, args, kwargs)

    return make_block
