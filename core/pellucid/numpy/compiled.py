"""NumPy functions: one compiled call when eager, part of the caller's program when traced."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from pellucid._machine.base import ArgumentTypeError, copy_with_name, library_code
from pellucid._machine.higher_order.jitted import Jitted, with_stages
from pellucid._machine.higher_order.traced_function import JitOptions
from pellucid._machine.runtime.calls import make_call
from pellucid._machine.tracing import (
    FunctionSpec,
    Tracer,
    bottom,
    computes_known,
    context,
    resolve_arguments,
    use_trace,
)
from pellucid._machine.xla.flags import overridden
from pellucid._machine.xla.pytree import flatten

from .recall import remembering, with_operands

F = TypeVar("F", bound=Callable[..., Any])


class _Spec(FunctionSpec):
    """The specification of a compiled NumPy function, whose errors contain its public name and no static arguments:
    users didn't declare those.
    """

    __slots__ = ()

    def not_arrays(self, what: str, do: str, *arguments: Any) -> ArgumentTypeError:
        _, room, *within = self.function.__module__.split(".")
        path = ["jnp" if room == "numpy" else room]
        if room == "scipy" or within[:1] == ["linalg"]:
            path.append(within[0])
        what = f"{'.'.join([*path, self.name.lstrip('_')])} needs arrays or numbers."
        do = "Pass an array."
        return super().not_arrays(what, do, *arguments)


@overload
def numpy_function(function: F, *, static: str | Sequence[str] = ()) -> F: ...
@overload
def numpy_function(*, static: str | Sequence[str]) -> Callable[[F], F]: ...
def numpy_function(
    function: Callable[..., Any] | None = None, *, static: str | Sequence[str] = ()
) -> Any:
    """Compile `function` for eager calls; under a trace its primitives are traced.

    `static` names the arguments that are not arrays (axes, dtypes, flags); they must be hashable.
    `.python` is the function as it runs under a trace, for callers that know they are being traced.
    """
    if function is None:
        return functools.partial(numpy_function, static=static)
    # A private function is part of public ones, and these are marked as library code.
    chosen = function if function.__name__.startswith("_") else library_code(function)
    static_nums, static_names = resolve_arguments(chosen, None, static or None, "static")
    spec = _Spec(chosen, chosen.__name__, static_nums, static_names)
    jitted = Jitted(JitOptions(spec, inline=True, share=False))
    python = remembering(chosen, static_nums, static_names)

    def cache_miss(*args: Any, **kwargs: Any) -> Any:
        if not context.trace.is_eager and not computes_known.value:
            return python(*args, **kwargs), None
        args, kwargs = with_operands(args, kwargs)
        if any(isinstance(x, Tracer) for x in flatten((args, kwargs))[0]):
            return python(*args, **kwargs), None
        if context.trace.is_eager:
            return jitted.cache_miss(*args, **kwargs)
        # Concrete operands under `ensure_compile_time_eval`: also one compiled call, but no entry for C++, as a trace
        # is active.
        with use_trace(bottom()), overridden(computes_known, None):
            return jitted.cache_miss(*args, **kwargs)[0], None

    call = make_call(
        chosen.__name__,
        chosen,
        cache_miss,
        static_nums,
        static_names,
        (chosen, static_nums),
    )
    functools.update_wrapper(call, chosen)
    call.python = python
    jitted.callable = weakref.ref(call)
    return with_stages(call, jitted)


def alias(function: F, name: str) -> F:
    """A NumPy function under another name.

    >>> jnp.abs.__name__, jnp.absolute.__name__
    ('abs', 'absolute')
    """
    jitted: Jitted | None = getattr(function, "jitted", None)
    if jitted is None:
        return copy_with_name(function, name)
    python: Any = jitted.spec.function
    return numpy_function(copy_with_name(python, name), static=jitted.spec.static_names)
