"""A loaded executable: arguments to shards, run, shards to results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.base import config, dtypes
from pellucid.base.errors import ForbiddenError, UnsupportedError
from pellucid.ir.avals import aval_at, physical
from pellucid.ir.effects import Effect
from pellucid.ir.rules import Avals, Operands, Results
from pellucid.runtime.extended import ExtendedArray
from pellucid.runtime.failures import raise_runtime_error
from pellucid.runtime.shared_program import SharedProgram
from pellucid.runtime.tokens import tokens
from pellucid.runtime.transfer import ordered_as, same_order, shard_argument
from pellucid.xla import arrays
from pellucid.xla.calls import COPIED_BY_PYTHON, FastPath
from pellucid.xla.compile import (
    JaxRuntimeError,
    allocated_bytes,
    result_handler,
)

_LARGE_BYTES = 64 << 20
"""Programs that allocate this much run for so long that the detour over Python (4 us) does not show."""


class Executable:
    """A compiled program on its devices.

    Arguments are flat arrays in the order of the program; `kept` tells which of them the compiled program
    still takes; `consts` are arrays it takes in front of them.
    """

    def __init__(
        self,
        name: str,
        loaded: Any,
        *,
        in_avals: Avals,
        out_avals: Avals,
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        kept: Sequence[bool],
        consts: Operands,
        committed: bool,
        effects: Sequence[Effect] = (),
        has_side_effects: bool = False,
        calls_host: bool = False,
        host_failures: Sequence[list[Exception]] = (),
        is_small: bool = False,
        has_layouts: bool = False,
        keep_alive: Any = None,
        digest: str = "",
    ) -> None:
        self.name = name
        self.loaded = loaded
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.in_shardings = list(in_shardings)
        self.out_shardings = list(out_shardings)
        self.kept = list(kept)
        self.committed = committed
        self.effects = tuple(effects)
        self.has_side_effects = has_side_effects
        self.keep_alive = keep_alive
        self.calls_host = calls_host
        if has_layouts and effects:
            raise UnsupportedError(
                f"`{name}` has effects in an order, and can't choose the order of elements in memory too.",
                do="Use unordered effects, or leave the layouts out of its formats.",
            )
        self.has_layouts = has_layouts
        """Whether arguments or results may lie in memory otherwise than is usual on their devices."""
        self._host_failures = tuple(host_failures)
        """Where functions that the program calls put their failures, if they don't raise them."""
        self.equation_ids: dict[int, int] | None = None
        """For a program from disk: from the equation ids in its metadata to this process's."""
        self._allocated_bytes: int | None = 0 if is_small else None
        self.const_sharding = self.in_shardings[: len(consts)]
        with config.transfer_guard_host_to_device("allow"):  # they are a part of the program
            self.consts = [
                shard_argument(c, s) for c, s in zip(consts, self.const_sharding, strict=True)
            ]
        self.argument_shardings = self.in_shardings[len(consts) :]
        self.gives_plain_arrays = not any(map(_is_wrapped, self.out_avals))
        """Whether all results are arrays as C++ makes them."""
        self.handlers = [
            _handler(aval, sharding, committed)
            for aval, sharding in zip(self.out_avals, self.out_shardings, strict=True)
        ]
        kept_shardings = [s for s, k in zip(self.argument_shardings, self.kept, strict=True) if k]
        self._kept_shardings = kept_shardings
        shardings = [*self.in_shardings, *self.out_shardings]
        self._shared = (
            None
            if all(sharding.is_fully_addressable for sharding in shardings)
            else SharedProgram(name, self.in_avals, loaded, shardings, digest)
        )

    def __call__(self, arguments: Operands) -> list[Any]:
        """Results of the program on flat `arguments`; raises ForbiddenError under `no_execution`."""
        if config.no_execution.value:
            raise ForbiddenError(
                f"`{self.name}` has to run, which `no_execution` forbids.",
                do="Only trace and compile it: `jit(f).trace(...)`, `.lower(...)`, `.compile()`, `eval_shape`.",
            )
        kept = [x for x, k in zip(arguments, self.kept, strict=True) if k]
        placed = [
            ordered_as(shard_argument(x, s), layout)
            for x, s, layout in zip(kept, self._kept_shardings, self.kept_layouts, strict=True)
        ]
        try:
            if self.effects or self.has_side_effects or self._host_failures:
                return self._run_with_tokens([*self.consts, *placed], kept)
            results = self._start(self.loaded.execute_sharded, [*self.consts, *placed], kept)
            return results.consume_with_handlers(self.handlers)
        except (JaxRuntimeError, ValueError) as error:
            raise_runtime_error(self.name, error)

    def _start(self, start: Callable[[Any], Any], arguments: Any, given: Operands) -> Any:
        """`start(arguments)`, which were placed as needed from `given`; with other processes, if there are any."""
        if self._shared is None:
            return start(arguments)
        return self._shared.launch(start, arguments, given)

    def _run_with_tokens(self, arguments: list[Any], given: Operands) -> list[Any]:
        devices = self.in_devices
        incoming = [tokens.ordered(effect, devices) for effect in self.effects]
        start = functools.partial(self.loaded.execute_sharded, with_tokens=True)
        results = self._start(start, [*incoming, *arguments], given)
        n = len(self.effects)
        token_handlers = [tokens.handler(devices)] * n
        outgoing = results.consume_with_handlers([*token_handlers, *self.handlers])
        for effect, token in zip(self.effects, outgoing, strict=False):
            tokens.set_ordered(effect, token)
        token = results.consume_token()
        tokens.add_runtime_token(devices[0], token)
        if self._host_failures:
            token.block_until_ready()
            self._raise_host_failure()
        return outgoing[n:]

    def _raise_host_failure(self) -> None:
        for failures in self._host_failures:
            if failures:
                first = failures[0]
                failures.clear()
                raise first from first.__cause__

    @property
    def in_devices(self) -> list[Any]:
        """The devices that run the program, in order."""
        return list(self.loaded.local_devices())

    def fast_path(self, out_tree: Any, arguments: Operands) -> FastPath | None:
        """What the C++ call path needs to run this program alone on arguments like these.

        None for programs that must come through Python: those with effects or host callbacks, those that take or give
        arrays of extended dtypes or give float0, those on which processes agree, and those large enough to run out of
        memory, whose errors C++ would raise as a bare ValueError.
        """
        if self.effects or self.has_side_effects or self.calls_host or not self.gives_plain_arrays:
            return None
        if self.has_layouts:
            return None
        if self._shared is not None and self._shared.is_compared:
            return None
        if self._is_large():
            return None
        n_consts = len(self.consts)
        kept = [x for x, k in zip(arguments, self.kept, strict=True) if k]
        if not all(map(_is_taken_as_it_is, kept, self._kept_shardings, self.kept_layouts)):
            return None
        return FastPath(
            xla_executable=self.loaded,
            out_pytree_def=out_tree,
            in_shardings=[*self.const_sharding, *self._kept_shardings],
            out_shardings=self.out_shardings,
            out_avals=self.out_avals,
            out_committed=[self.committed] * len(self.out_avals),
            kept_var_bitvec=[*[True] * n_consts, *self.kept],
            in_device_local_layouts=[*[None] * n_consts, *map(_layout_of_argument, kept)],
            const_args=self.consts,
        )

    @functools.cached_property
    def kept_layouts(self) -> Results:
        """The layout in memory of each argument that the compiled program takes, constants left out.

        None for a device's own: XLA doesn't tell layouts where there are tokens, and no other is asked for there.
        """
        if self.effects:
            return [None] * len(self._kept_shardings)
        layouts = self.loaded.get_parameter_layouts()
        return layouts[len(layouts) - len(self._kept_shardings) :]

    @property
    def result_layouts(self) -> Results:
        """The layout in memory of each result, as `kept_layouts`."""
        if self.effects:
            return [None] * len(self.out_avals)
        return self.loaded.get_output_layouts()

    def _is_large(self) -> bool:
        if self._allocated_bytes is None:
            self._allocated_bytes = allocated_bytes(self.loaded)
        return self._allocated_bytes >= _LARGE_BYTES


def _is_taken_as_it_is(argument: Any, sharding: Any, layout: Any) -> bool:
    """Whether C++ hands over an argument rightly: it asks Python to move an array only from another number of devices."""
    if type(argument) is not arrays.ArrayImpl:
        return type(argument) is not ExtendedArray
    # What the call has donated was handed over itself, so its order was right; some jaxlibs don't tell it any more.
    if not argument.is_deleted() and not same_order(argument._pjrt_layout, layout):
        return False
    own = argument._sharding
    n_devices = len(own._internal_device_list)
    if n_devices == 1 or n_devices != len(sharding._internal_device_list):
        return True
    return own is sharding or own.is_equivalent_to(sharding, argument.ndim)


def _is_wrapped(aval: Any) -> bool:
    """Whether values of this type are no arrays as C++ makes them."""
    dtype = getattr(aval, "dtype", None)
    return dtype == dtypes.float0 or isinstance(dtype, dtypes.ExtendedDType)


def _handler(aval: Any, sharding: Any, committed: bool) -> Callable[[Any], Any]:
    """Makes a result of its shards: an array, for float0 zeros of NumPy, for extended dtypes an `ExtendedArray`."""
    if not _is_wrapped(aval):
        return result_handler(aval, sharding, committed)
    if aval.dtype == dtypes.float0:
        return lambda shards: np.zeros(aval.shape, dtypes.float0)
    words = result_handler(aval_at(physical(aval), sharding), sharding, committed)
    return lambda shards: ExtendedArray(aval, words(shards))


def _layout_of_argument(argument: Any) -> Any:
    """What C++ is told of an argument's layout: None if it may take the argument as it is.

    C++ would read a NumPy array's memory while the program runs, and show what is written to it meanwhile.
    An argument that has a layout comes to `shard_argument` instead, which copies it. C++ keeps one entry for
    all host values of a type, so only Python numbers, which have types of their own, are left to it.
    """
    if type(argument) is arrays.ArrayImpl or type(argument) in (int, float, complex):
        return None
    return COPIED_BY_PYTHON
