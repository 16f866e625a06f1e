"""`buffer_callback`: calls of Python functions that read and write the buffers of a running program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    CallbackError,
    CompilationError,
    UnsupportedError,
)
from pellucid._machine.higher_order.custom_vmap import check_vmap_method
from pellucid._machine.ir import (
    HOST,
    Primitive,
    ShapedArray,
    Shown,
    derived_types,
    io_effect,
    no_effects,
)
from pellucid._machine.lowering.custom_calls import TYPED, HostFunction, custom_call
from pellucid._machine.runtime.failures import mark_error
from pellucid._machine.tracing import bind, name_of, type_of
from pellucid._machine.xla.mlir import ir

from .host import FlatCallback, callback_error, result_types
from .pure import CalledForBatches, flat_arguments

_TARGETS = {
    "cpu": "xla_buffer_python_cpu_callback",
    "cuda": "xla_buffer_python_gpu_callback",
    "rocm": "xla_buffer_python_gpu_callback",
}
_EFFECTS = frozenset({io_effect})


class BufferCallbackParams(NamedTuple):
    """`result_avals` are the types of the flat results; aliases are pairs (operand, result) of flat positions."""

    callback: FlatCallback
    command_buffer_compatible: bool
    has_side_effect: bool
    input_output_aliases: tuple[tuple[int, int], ...]
    result_avals: tuple[ShapedArray, ...]
    vmap_method: str | None


class BufferCallback(CalledForBatches, Shown, Primitive[BufferCallbackParams]):
    """A call of a Python function that accesses the buffers of operands and results."""

    name = "buffer_callback"
    traits = HOST
    types = derived_types  # not cached, because the cache would keep the callback alive
    calls_python = True

    def abstract_eval(self, avals, params):
        return params.result_avals

    def effects(self, avals, params):
        return _EFFECTS if params.has_side_effect else no_effects

    def lower(self, ctx, operands, params):
        target = _TARGETS.get(ctx.platform)
        if target is None:
            raise CompilationError(
                f"programs on platform {ctx.platform} can't call Python functions.",
                do="Run the function on a CPU or GPU device.",
            )
        if ctx.sharding_attributes is not None:
            raise UnsupportedError(
                "a program over several devices can't call a function on its buffers.",
                got=f"`{name_of(params.callback.function)}`",
                do="Use `pure_callback` or `io_callback`.",
            )
        if params.command_buffer_compatible and ctx.platform != "cpu":
            target += "_cmd_buffer"
        index = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), len(ctx.host_callbacks))
        ctx.host_callbacks.append(_HostFunction(params.callback, len(operands)))
        ctx.host_failures.append(None)
        call = custom_call(
            ctx,
            target,
            operands,
            result_types=ctx.types(ctx.avals_out),
            operand_layouts=[_row_major(aval) for aval in ctx.avals_in],
            result_layouts=[_row_major(aval) for aval in ctx.avals_out],
            backend_config={"index": index},
            has_side_effect=params.has_side_effect,
            api_version=TYPED,
            operand_output_aliases=dict(params.input_output_aliases),
        )
        return list(call.results)


buffer_callback_p = BufferCallback()


def _row_major(aval: Any) -> tuple[int, ...]:
    """The dimensions, those with the smallest stride first."""
    return tuple(reversed(range(aval.ndim)))


class _HostFunction(HostFunction):
    """The host function of a compiled program. It marks the text of its exceptions, so that the caller finds the
    original.
    """

    def __init__(self, callback: FlatCallback, n_operands: int) -> None:
        self.callback = callback
        self.n_operands = n_operands

    @property
    def identity(self) -> Hashable:
        """A key that identifies what the program calls."""
        return self.callback.identity, self.n_operands

    def __call__(self, context: Any, *buffers: Any) -> tuple[()]:
        callback, n = self.callback, self.n_operands
        args, kwargs = callback.in_tree.unflatten(buffers[:n])
        try:
            result = callback.function(
                context, callback.out_tree.unflatten(buffers[n:]), *args, **kwargs
            )
        except Exception as error:  # whatever the user's function raises
            failure: BaseException = callback_error("buffer_callback", callback.function, error)
            failure.__cause__ = error
        except (KeyboardInterrupt, SystemExit) as error:
            failure = error
        else:
            if result is None:
                return ()
            failure = CallbackError(
                f"buffer_callback: `{name_of(callback.function)}` must return None.",
                got=f"got {type(result).__name__}",
                do="Write results into the buffers of its second argument.",
            )
        raise RuntimeError(mark_error(failure))


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function of arrays that calls `callback(context, results, *args, **kwargs)` on their buffers, without copies.

    `results` has the structure of `result_shape_dtypes`, and buffers that `callback` must fill; the arguments have buffers
    that it must not change, unless `input_output_aliases`, flat positions of operands and results, says that they share their
    memory. A buffer is valid until `callback` returns. It has `shape`, `dtype` and the protocols of arrays: NumPy's on
    CPUs, CUDA's on GPUs, and DLPack. `vmap_method` is as for `pure_callback`; with `has_side_effect` it is called though nobody
    uses its results. With `command_buffer_compatible` a GPU records its work once, and repeats that. It has no derivative.

    Raises: ArgumentValueError for aliases that don't fit; UnsupportedError in programs over several devices; CallbackError, when the
    program runs, where `callback` raises an exception or returns something.

    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = np.arange(3, dtype=np.float32)
    >>> buffer_callback(add_one, x)(x)
    Array([1., 2., 3.], dtype=float32)
    """
    check_vmap_method("buffer_callback", vmap_method)
    avals, out_tree = result_types("buffer_callback", result_shape_dtypes)
    aliases = tuple(sorted((input_output_aliases or {}).items()))

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = flat_arguments("buffer_callback", callback, args, kwargs)
        _check_aliases(aliases, [type_of(x) for x in leaves], avals)
        params = BufferCallbackParams(
            FlatCallback("buffer_callback", callback, in_tree, out_tree),
            bool(command_buffer_compatible), bool(has_side_effect), aliases, avals, vmap_method,
        )  # fmt: skip
        return out_tree.unflatten(bind(buffer_callback_p, *leaves, params=params))

    return call


def _check_aliases(aliases: Any, operands: Any, results: Any) -> None:
    for i, j in aliases:
        if not 0 <= i < len(operands) or not 0 <= j < len(results):
            raise ArgumentValueError(
                "buffer_callback: input_output_aliases names an operand or a result that there isn't.",
                got=f"{i}: {j}, with {len(operands)} operands and {len(results)} results",
            )
        if (operands[i].shape, operands[i].dtype) != (results[j].shape, results[j].dtype):
            raise ArgumentValueError(
                "buffer_callback: an operand and a result that share memory must have one type.",
                got=f"operand {i}: {operands[i].text()}, result {j}: {results[j].text()}",
            )
