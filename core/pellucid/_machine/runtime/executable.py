"""Loaded executables: from arguments to shards, a run, from shards to results."""

from __future__ import annotations

import functools
import weakref
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid._machine.base import (
    DeviceError,
    ForbiddenError,
    Unary,
    UnsupportedError,
    config,
    dtypes,
    strict_zip,
)
from pellucid._machine.ir import (
    Avals,
    Effect,
    Jaxpr,
    Mask,
    Operands,
    Results,
    ShapedArray,
    Values,
    abstract_token,
    aval_at,
    physical,
)
from pellucid._machine.sharding import Sharding
from pellucid._machine.xla import (
    COPIED_BY_PYTHON,
    Device,
    DeviceLayout,
    FastPath,
    JaxRuntimeError,
    arrays,
    serialized,
    transfers_watched,
)
from pellucid._machine.xla.compile import (
    LoadedExecutable,
    allocated_bytes,
    module_cost,
    result_handler,
    runs_in_call,
)
from pellucid._machine.xla.hlo import module_from_proto

from .calls import is_copied
from .extended import ExtendedArray
from .failures import raise_runtime_error
from .peers import LaunchPoint, SharedExecutable
from .tokens import Token, tokens
from .transfer import copy_array, order_as, same_order, shard_argument
from .waiting import wait_for_token

MIN_LARGE_BYTES = 64 << 20
"""Minimum allocated bytes of a program for which the detour through Python (4 us) is negligible."""


class Precompiled(NamedTuple):
    """Metadata of an executable that was compiled earlier, by another process or for an equal program."""

    source: Literal["disk", "memory"]
    origins: Mapping[int, Any]
    """The program's equations, each with `id` and `source`, by the ids in the executable's metadata."""
    program_id: int
    """The executable's number in recordings."""
    content: bytes
    """The executable, serialized and compressed, if it is from disk: XLA can't serialize a loaded executable again."""
    program: bytes
    """The whole optimized program in the format of `xla/serialized`, compressed; empty if the executable contains all
    of it.
    """
    seconds: float = 0.0
    """Compilation time, if it is from disk."""


_users: defaultdict[int, list[weakref.ref[Executable]]] = defaultdict(list)
"""Maps the id of XLA's executable to the programs that share it, newest last."""


def precompiled_metadata(loaded: LoadedExecutable) -> Precompiled | None:
    """Metadata of XLA's executable `loaded` for the newest program that uses it; None for the one it was compiled for."""
    executable = newest_user(loaded)
    return None if executable is None else executable.precompiled


def newest_user(loaded: LoadedExecutable) -> Executable | None:
    """The newest program that uses XLA's executable `loaded`; None if all are gone."""
    executables = (reference() for reference in reversed(_users.get(id(loaded), ())))
    return next((each for each in executables if each is not None), None)


def _note_user(executable: Executable) -> None:
    number = id(executable.loaded)

    def forget(reference: weakref.ref[Executable]) -> None:
        _users[number].remove(reference)
        if not _users[number]:
            del _users[number]

    _users[number].append(weakref.ref(executable, forget))


def optimized_modules(loaded: LoadedExecutable) -> list[Any]:
    """The HLO modules of XLA's executable `loaded`, complete even if it was loaded without the bodies of fusions."""
    facts = precompiled_metadata(loaded)
    if facts is None or not facts.program:
        return loaded.hlo_modules()
    return [module_from_proto(serialized.module_of(zlib.decompress(facts.program)))]


def cost_analysis(loaded: LoadedExecutable) -> Any:
    """XLA's estimates for an executable, such as FLOPs and bytes."""
    facts = precompiled_metadata(loaded)
    if facts is None or not facts.program:
        return loaded.cost_analysis()
    [module] = optimized_modules(loaded)
    return module_cost(loaded.client, module)


def serialized_executable(loaded: LoadedExecutable) -> bytes:
    """An executable as bytes, including its whole program.

    Raises: JaxRuntimeError if the platform can't serialize executables.
    """
    facts = precompiled_metadata(loaded)
    if facts is None or not facts.content:
        return loaded.serialize()
    payload = zlib.decompress(facts.content)
    if not facts.program:
        return payload
    return serialized.with_program(payload, zlib.decompress(facts.program))


@dataclass(eq=False, kw_only=True)
class Executable:
    """A compiled program loaded onto its devices.

    Arguments are flat arrays in the program's order; `consts` are arrays that precede them.

    Raises: UnsupportedError for a program with ordered effects and specified layouts.
    """

    name: str
    loaded: LoadedExecutable
    in_avals: Avals
    out_avals: Avals
    in_shardings: Sequence[Sharding]
    out_shardings: Sequence[Sharding]
    used: Mask
    """Whether the compiled program still takes each argument."""
    consts: Operands
    committed: bool
    donated: Mask = ()
    """Whether each argument is donated; empty if none is."""
    effects: Sequence[Effect] = ()
    has_side_effects: bool = False
    calls_host: bool = False
    host_failures: Sequence[list[BaseException]] = ()
    """Lists to which functions that the program calls append their failures, if they don't raise them."""
    is_small: bool = False
    """Whether the program computes less than `MIN_LARGE_BYTES`, so that XLA needn't report its allocation."""
    has_layouts: bool = False
    """Whether arguments or results may have a memory layout other than the device's default."""
    keep_alive: Any = None
    digest: str = ""
    precompiled: Precompiled | None = None
    """Metadata of an executable that wasn't compiled for this program."""
    jaxpr: Jaxpr | None = field(default=None, repr=False)
    """The program as it was lowered, for tools; None if the executable was read from a file of the user."""
    shared: Any = None
    """The cache entry through which other programs find this executable; it lives as long as any of them."""

    def __post_init__(self) -> None:
        _note_user(self)
        if self.has_layouts and self.effects:
            raise UnsupportedError(
                f"`{self.name}` has effects in an order, and can't choose the order of elements in memory too.",
                do="Use unordered effects, or leave the layouts out of its formats.",
            )
        self.has_tokens = self.effects or abstract_token in (*self.in_avals, *self.out_avals)
        n_consts = len(self.consts)
        self.const_sharding = self.in_shardings[:n_consts]
        with config.transfer_guard_host_to_device("allow"):  # they are part of the program
            self.consts = [
                shard_argument(c, s) for c, s in strict_zip(self.consts, self.const_sharding)
            ]
        self.argument_shardings = self.in_shardings[n_consts:]
        self._donated_avals = {a for a, d in zip(self.in_avals, self.donated, strict=False) if d}
        self.gives_plain_arrays = not any(map(is_wrapped, self.out_avals))
        """Whether all results are arrays as C++ creates them."""
        self.handlers = [
            _handler(aval, sharding, self.committed)
            for aval, sharding in strict_zip(self.out_avals, self.out_shardings)
        ]
        self._wrapped = [(i, a) for i, a in enumerate(self.out_avals) if is_wrapped(a)]
        self._kept_shardings = [s for s, k in strict_zip(self.argument_shardings, self.used) if k]
        shardings = [*self.in_shardings, *self.out_shardings]
        self._shared = (
            None
            if all(sharding.is_fully_addressable for sharding in shardings)
            else SharedExecutable(self.name, self.in_avals, self.loaded, shardings, self.digest)
        )

    def __call__(self, arguments: Operands) -> Values:
        """Results of the program on flat `arguments`; raises ForbiddenError under `no_execution`."""
        if config.no_execution.value:
            raise ForbiddenError(
                f"`{self.name}` has to run, which `no_execution` forbids.",
                do="Only trace and compile it: `jit(f).trace(...)`, `.lower(...)`, `.compile()`, `eval_shape`.",
            )
        if not isinstance(self.loaded, LoadedExecutable):
            raise DeviceError(
                f"`{self.name}` can't run: it was compiled for devices of a topology, which aren't there.",
                got=f"devices: {', '.join(map(str, self.in_devices))}"[:200],
                do="Look at it by `as_text()`, `memory_analysis()`, or compile it for devices of `devices()`.",
            )
        operands = [x for x, k in strict_zip(arguments, self.used) if k]
        moved = [shard_argument(x, s) for x, s in strict_zip(operands, self._kept_shardings)]
        placed = [order_as(x, layout) for x, layout in strict_zip(moved, self.kept_layouts)]
        if self._may_donate_consts:
            self._keep_consts(placed)
        try:
            if self.effects or self.has_side_effects or self.host_failures:
                return self._run_with_tokens([*self.consts, *placed], operands)
            results = self._start(self.loaded.execute_sharded, [*self.consts, *placed], operands)
            return self._wrap(results.consume_with_handlers(self.handlers))
        except (JaxRuntimeError, ValueError) as error:
            raise_runtime_error(self.name, error)
        finally:
            for x, reordered in strict_zip(moved, placed):
                if reordered is not x and reordered.is_deleted():  # donated
                    x.delete()

    @functools.cached_property
    def _may_donate_consts(self) -> bool:
        """Whether a donated argument has the type of a constant, so that it may be the constant itself."""
        return any(
            _memory_type(c.aval) in map(_memory_type, self._donated_avals) for c in self.consts
        )

    def _keep_consts(self, placed: Values) -> None:
        """Copy the constants whose memory the call would donate, because later calls need them."""
        donated = [d for d, k in zip(self.donated, self.used, strict=True) if k]
        taken = {p for x, d in strict_zip(placed, donated) if d for p in _pointers(x)}
        self.consts = [
            copy_array(c) if taken.intersection(_pointers(c)) else c for c in self.consts
        ]

    def _start(self, start: Unary, arguments, operands: Operands):
        """`start(arguments)`, where `arguments` were placed from `operands`; together with other processes if there are
        any.
        """
        if self._shared is None:
            return start(arguments)
        return self._shared.launch(start, arguments, operands)

    def _run_with_tokens(self, arguments: Values, operands: Operands) -> Values:
        devices = self.in_devices
        incoming = [tokens.token_to_await(effect, devices) for effect in self.effects]
        start = functools.partial(self.loaded.execute_sharded, with_tokens=True)
        results = self._start(start, [*incoming, *arguments], operands)
        n = len(self.effects)
        token_handlers = [tokens.handler(devices)] * n
        outgoing = results.consume_with_handlers([*token_handlers, *self.handlers])
        values = self._wrap(outgoing[n:])
        tokens.last.update(zip(self.effects, outgoing, strict=False))
        token = results.consume_token()
        tokens.running[devices[0]] = token
        if self.host_failures:
            wait_for_token(token)
            for failures in filter(None, self.host_failures):
                first = failures[0]
                failures.clear()
                raise first from first.__cause__
        return values

    def _wrap(self, values: Values) -> Values:
        """`values` of the program, with those that are no arrays of C++ in their own classes."""
        for i, aval in self._wrapped:
            values[i] = _wrap_result(aval, values[i])
        return values

    @property
    def in_devices(self) -> list[Device]:
        """The devices that run the program, in order."""
        if isinstance(self.loaded, LoadedExecutable):
            return list(self.loaded.local_devices())
        placed = [*self.in_shardings, *self.out_shardings]
        return list(placed[0]._device_assignment) if placed else []

    def fast_path(self, out_tree: Any, arguments: Operands) -> FastPath | None:
        """Data with which the C++ call path runs this program without Python, for arguments like these.

        None for programs that must go through Python: those with effects or host callbacks; those with arrays of
        extended dtypes or results of float0; those on which processes must agree; those large enough to run out of
        memory, for which C++ would raise a bare ValueError; and those that may be called with a constant's memory as a
        donated argument.
        """
        if self.effects or self.has_side_effects or self.calls_host or not self.gives_plain_arrays:
            return None
        if self.has_layouts or self._is_large or self._may_donate_consts:
            return None
        n_consts = len(self.consts)
        operands = [x for x, k in strict_zip(arguments, self.used) if k]
        shared = self._shared
        compared = shared if shared is not None and shared.is_compared else None
        if compared is not None and not compared.is_counted_in_cpp(operands):
            return None
        if not all(map(_is_taken_as_it_is, operands, self._kept_shardings, self.kept_layouts)):
            return None
        layouts = [*[None] * n_consts, *map(_layout_of_argument, operands)]
        if compared is not None:
            layouts[-1] = LaunchPoint(compared, operands[-1]._pjrt_layout._xla_layout())
        return FastPath(
            xla_executable=self.loaded,
            out_pytree_def=out_tree,
            in_shardings=[*self.const_sharding, *self._kept_shardings],
            out_shardings=self.out_shardings,
            out_avals=self.out_avals,
            out_committed=[self.committed] * len(self.out_avals),
            kept_var_bitvec=[*[True] * n_consts, *self.used],
            in_device_local_layouts=layouts,
            const_args=self.consts,
            has_run=any(map(is_copied, operands)) and self._has_run,
        )

    @functools.cached_property
    def kept_layouts(self) -> Results:
        """The memory layout of each argument that the compiled program takes, without constants.

        None for the device's default: XLA doesn't report layouts of programs with tokens, which can't specify others.
        """
        if self.has_tokens:
            return [None] * len(self._kept_shardings)
        layouts = self.loaded.get_parameter_layouts()
        return layouts[len(layouts) - len(self._kept_shardings) :]

    @functools.cached_property
    def _has_run(self) -> bool:
        """Whether the program has finished when a call with ready arguments returns."""
        # Constants that aren't ready delay a run; for a program from disk, XLA may report too few FLOPs.
        is_compiled_here = self.precompiled is None or self.precompiled.source != "disk"
        return (
            is_compiled_here
            and runs_in_call(self.loaded)
            and all(c.is_ready() for c in self.consts)
        )

    @property
    def result_layouts(self) -> Results:
        """The memory layout of each result, in the form of `kept_layouts`."""
        if self.has_tokens:
            return [None] * len(self.out_avals)
        return self.loaded.get_output_layouts()

    @functools.cached_property
    def _is_large(self) -> bool:
        return not self.is_small and allocated_bytes(self.loaded) >= MIN_LARGE_BYTES


def _is_taken_as_it_is(argument, sharding: Sharding, layout: DeviceLayout) -> bool:
    """Whether C++ may take an argument directly: it calls Python to move an array only if the number of devices
    differs.
    """
    if type(argument) is not arrays.ArrayImpl:
        return type(argument) is not ExtendedArray
    # An argument donated by the call was passed directly, so its layout was right; some jaxlibs can't report it any
    # more.
    if not argument.is_deleted() and not same_order(argument._pjrt_layout, layout):
        return False
    current = argument._sharding
    n_devices = len(current._internal_device_list)
    if n_devices == 1 or n_devices != len(sharding._internal_device_list):
        return True
    return current is sharding or current.is_equivalent_to(sharding, argument.ndim)


def _memory_type(aval: Any) -> Any:
    return aval.shape, aval.dtype


def _pointers(array: Any) -> list[int]:
    """Addresses of the array's shards on this process's devices."""
    if type(array) is ExtendedArray:
        array = array.words
    return [shard.unsafe_buffer_pointer() for shard in arrays.shards_of(array)]


def is_wrapped(aval: ShapedArray) -> bool:
    """Whether values of this type are represented by another class than C++'s arrays."""
    dtype = getattr(aval, "dtype", dtypes.float0)
    return dtype == dtypes.float0 or isinstance(dtype, dtypes.ExtendedDType)


def _handler(aval: ShapedArray, sharding: Sharding, committed: bool) -> Unary:
    """C++'s handler for a result, which makes an array from shards: that of the words of an extended dtype.

    Handlers in Python take four times as long: C++ looks for classes of jax at each call of one.
    """
    if aval is abstract_token:
        return tokens.handler(sharding._internal_device_list)
    stored = aval_at(physical(aval), sharding) if is_wrapped(aval) else aval
    return result_handler(stored, sharding, committed)


def _wrap_result(aval: ShapedArray, array: Any) -> Any:
    """The object that represents a result stored as `array`: NumPy zeros for float0, an `ExtendedArray` for extended dtypes."""
    if aval is abstract_token:
        return Token(array)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return ExtendedArray(aval, array)


def _layout_of_argument(argument):
    """The layout passed to C++ for an argument; None if C++ may take the argument directly.

    C++ would read a large NumPy array's memory while the program runs, and see later writes to it. An argument with a
    layout is passed to `shard_argument` instead, which copies it, and publishes the transfer to observers; small arrays
    were copied already.
    """
    if type(argument) in (arrays.ArrayImpl, bool, int, float, complex):
        return None
    return None if is_copied(argument) and not transfers_watched.value else COPIED_BY_PYTHON
