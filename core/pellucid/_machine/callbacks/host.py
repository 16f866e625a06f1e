"""Host functions: a Python function as a compiled program calls it, with checked results and recorded failures."""

from __future__ import annotations

import time
import traceback
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    CallbackError,
    CallbackRan,
    DtypeError,
    Function,
    dtypes,
    identity,
    identity_of_structure,
    is_user_file,
    leaf_paths,
    on,
    publish,
    shown_path,
    strict_zip,
    structure_differences,
)
from pellucid._machine.ir import Operands, ShapedArray, shaped_array
from pellucid._machine.lowering.custom_calls import HostFunction, identity_of
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.extended import ExtendedArray
from pellucid._machine.runtime.failures import mark_error
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.sharding import make_single_device_sharding
from pellucid._machine.tracing import name_of, type_of
from pellucid._machine.xla import DictKey
from pellucid._machine.xla.arrays import ArrayImpl
from pellucid._machine.xla.pytree import flatten, flatten_with_path

_MAX_TRACEBACK_LINES = 30
"""Maximum number of lines of the user's traceback in an error."""


class FlatCallback:
    """A Python function of flat arrays, with the structures of its arguments and of its result (None if it has none).

    `static` contains the arguments that aren't arrays, by position among the leaves. Equal for the same function,
    structures and static arguments, so that otherwise equal programs are shared.
    """

    __slots__ = ("caller", "function", "in_tree", "out_tree", "static")

    def __init__(
        self,
        caller: str,
        function: Function,
        in_tree: Any,
        out_tree: Any = None,
        static: tuple[tuple[int, Any], ...] = (),
    ) -> None:
        self.caller = caller
        self.function = function
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.static = static

    @property
    def identity(self) -> Hashable:
        """A key that identifies the function, structures and static arguments."""
        static = tuple([(position, identity(value)) for position, value in self.static])
        trees = [t and identity_of_structure(t) for t in (self.in_tree, self.out_tree)]
        return self.caller, identity_of(self.function), *trees, static

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatCallback) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.function!r}, in_tree={self.in_tree!r})"

    def call(self, operands: Operands, avals: Sequence[ShapedArray]) -> tuple[Any, ...]:
        """The function's result for arrays with the values of `operands`, as NumPy arrays of types `avals`.

        Raises: CallbackError if the function fails (its exception is the cause), or if its result differs in structure,
        shapes or dtypes from the stated ones.
        """
        leaves = [on_host(x) for x in operands]
        for position, value in self.static:
            leaves.insert(position, value)
        args, kwargs = self.in_tree.unflatten(leaves)
        start = time.perf_counter()
        try:
            result = self.function(*args, **kwargs)
        except Exception as error:
            raise callback_error(self.caller, self.function, error) from error
        finally:
            if on.callback_ran:
                publish(CallbackRan(self.function, time.perf_counter() - start))
        if self.out_tree is None:
            return ()
        return self._check_result(result, avals)

    def _check_result(self, result: Any, avals: Sequence[ShapedArray]) -> tuple[np.ndarray, ...]:
        what = f"{self.caller}: `{name_of(self.function)}` returned"
        leaves, tree = flatten(result)
        if len(leaves) != len(avals) or not _is_named_alike(self.out_tree, tree):
            differences = structure_differences(self.out_tree, tree, leaves=leaves)
            raise CallbackError(
                f"{what} another structure than result_shape_dtypes.",
                got=[difference.text("result") for difference in differences[:4]],
            )
        if any(isinstance(x, np.ma.MaskedArray) for x in leaves):
            raise CallbackError(
                f"{what} a masked array. numpy masked arrays are not supported: the mask would be lost.",
                do="Return an array without a mask, `x.filled(value)`.",
            )
        arrays = [*map(_array, leaves)]
        wrong = [
            (i, x)
            for i, (x, aval) in enumerate(zip(arrays, avals, strict=True))
            if x.shape != aval.shape or x.dtype != aval.dtype
        ]
        if wrong:
            paths = [path for path, _ in flatten_with_path(result)[0]]
            raise CallbackError(
                f"{what} another type than result_shape_dtypes.",
                got=[
                    f"{shown_path('result', paths[i])}: expected {avals[i].text()}, "
                    f"got {shaped_array(x.shape, x.dtype).text()}"
                    for i, x in wrong[:4]
                ],
                do="Return that shape and dtype, for example with `np.asarray(result, dtype=...)`.",
            )
        return tuple(arrays)

    def for_program(self, ctx: Any, avals: Sequence[ShapedArray]) -> CheckedFunction:
        """The host function for the program being lowered with `ctx`; its results have types `avals`."""
        return CheckedFunction(self, avals, goes_on=ctx.sharding_attributes is not None)


def callback_error(caller: str, function: Function, error: Exception) -> CallbackError:
    """The error for a user's function that raised `error`."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [f for f in frames if is_user_file(f.filename)] or frames[1:]
    lines = [line for entry in traceback.format_list(user_frames) for line in entry.splitlines()]
    lines += traceback.format_exception_only(error)[-1].splitlines()
    return CallbackError(
        f"{caller}: `{name_of(function)}` raised {type(error).__name__}.",
        got=lines[-_MAX_TRACEBACK_LINES:],
    )


class CheckedFunction(HostFunction):
    """The host function of a compiled program. It marks the text of its exceptions, so that the caller finds the
    original.

    With `goes_on` it doesn't raise, because the program's other devices would wait forever for the failed one. Instead
    it returns zeros and appends the error to `failures`; the caller of the program raises it.
    """

    def __init__(
        self, callback: FlatCallback, avals: Sequence[ShapedArray], *, goes_on: bool
    ) -> None:
        self.callback = callback
        self.avals = avals
        self.failures: list[BaseException] | None = [] if goes_on else None

    @property
    def identity(self) -> Hashable:
        """A key that identifies what the program calls."""
        return self.callback.identity, self.avals, self.failures is not None

    def __call__(self, *operands: np.ndarray) -> tuple[Any, ...]:
        try:
            return self.callback.call(operands, self.avals)
        except (CallbackError, KeyboardInterrupt, SystemExit) as error:
            if self.failures is not None:
                self.failures.append(error)
                return tuple([np.zeros(a.shape, a.dtype) for a in self.avals])
            mark = mark_error(error)
        raise RuntimeError(mark)


def on_host(x: Any) -> Any:
    """An array with the value of `x`, on a CPU device unless it is an array already; memory of a running program is
    copied.

    For keys, an array of their words.
    """
    if isinstance(x, ExtendedArray):
        return x.words
    if isinstance(x, ArrayImpl):
        return x
    device = platforms.client("cpu").local_devices()[0]
    value = np.array(x, dtype=type_of(x).dtype)
    return from_host(value, sharding=make_single_device_sharding(device))


def _is_named_alike(stated: Any, returned: Any) -> bool:
    """Whether the leaves of two structures with equally many leaves have the same dict keys, where both have keys.

    Containers may differ: a list may be returned for a tuple.
    """
    if stated == returned:
        return True
    names = [
        [tuple(key for key in path if isinstance(key, DictKey)) for path in leaf_paths(tree)]
        for tree in (stated, returned)
    ]
    return all(a == b or not a or not b for a, b in strict_zip(*names))


def _array(x: Any) -> np.ndarray:
    """`x` as a NumPy array; 64-bit values are narrowed if arrays would be."""
    array = np.asarray(x)
    if array.dtype.kind not in "biufcV":
        return array
    return np.ascontiguousarray(array, dtype=dtypes.canonicalize(array.dtype)).reshape(array.shape)


def result_types(caller: str, result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    """(types, structure) of a callback's results, as stated by the user.

    Raises: ArgumentTypeError for leaves without shape and dtype; DtypeError for dtypes that arrays can't currently
    have.
    """
    pairs, tree = flatten_with_path(result_shape_dtypes)
    avals = []
    for path, leaf in pairs:
        if isinstance(leaf, type) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise ArgumentTypeError(
                f"{caller}: result_shape_dtypes holds something without shape and dtype.",
                got=f"{shown_path('result', path)}: {type(leaf).__name__} ({leaf!r:.60})",
                do="Describe each result by `ShapeDtypeStruct(shape, dtype)`, or by an array of its type.",
            )
        dtype = np.dtype(leaf.dtype)
        if dtype != dtypes.canonicalize(dtype):
            raise DtypeError(
                f"{caller}: result_shape_dtypes can't have 64 bits while these are off (`jax_enable_x64`).",
                got=f"{shown_path('result', path)}: {dtype}",
                do=f"State {dtypes.canonicalize(dtype)}, as arrays have it, or switch 64-bit dtypes on.",
            )
        avals.append(shaped_array(tuple(map(int, leaf.shape)), dtype))
    return tuple(avals), tree
