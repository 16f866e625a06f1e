"""A loaded executable: arguments to shards, run, shards to results."""

from __future__ import annotations

import functools
import weakref
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid._machine.base import (
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
from .peers import LaunchPoint, SharedProgram
from .tokens import Token, tokens
from .transfer import copied, ordered_as, same_order, shard_argument
from .waiting import wait_for_token

MIN_LARGE_BYTES = 64 << 20
"""Allocated bytes of a program from which on the detour over Python (4 us) does not show in its run."""


class Precompiled(NamedTuple):
    """Facts of an executable that was compiled before: by another process, or for an equal program of this one."""

    source: Literal["disk", "memory"]
    origins: Mapping[int, Any]
    """The program's equations, each with `id` and `source`, by the ids in the executable's metadata."""
    program_id: int
    """The executable's number in recordings."""
    content: bytes
    """The executable, serialized and compressed, if it is from disk: XLA can't write one again that it has loaded."""
    program: bytes
    """The whole optimized program, as `xla/serialized` writes it, compressed; empty if the executable has all of it."""
    seconds: float = 0.0
    """How long its compilation took, if it is from disk."""


_users: defaultdict[int, list[weakref.ref[Executable]]] = defaultdict(list)
"""By id of XLA's executable the programs that share it, but for that for which this process compiled it; newest last."""


def precompiled(loaded: LoadedExecutable) -> Precompiled | None:
    """Facts of XLA's executable `loaded` for the newest program that uses it; None for the one it was compiled for."""
    for reference in reversed(_users.get(id(loaded), ())):
        executable = reference()
        if executable is not None:
            return executable.precompiled
    return None


def _note_user(executable: Executable) -> None:
    number = id(executable.loaded)

    def forget(reference: weakref.ref[Executable]) -> None:
        _users[number].remove(reference)
        if not _users[number]:
            del _users[number]

    _users[number].append(weakref.ref(executable, forget))


def optimized_modules(loaded: LoadedExecutable) -> list[Any]:
    """The HLO modules of XLA's executable `loaded`, whole also where it was loaded without bodies of fusions."""
    facts = precompiled(loaded)
    if facts is None or not facts.program:
        return loaded.hlo_modules()
    return [module_from_proto(serialized.module_of(zlib.decompress(facts.program)))]


def cost_analysis(loaded: LoadedExecutable) -> Any:
    """XLA's estimates of flops, bytes and more for an executable."""
    facts = precompiled(loaded)
    if facts is None or not facts.program:
        return loaded.cost_analysis()
    [module] = optimized_modules(loaded)
    return module_cost(loaded.client, module)


def serialized_executable(loaded: LoadedExecutable) -> bytes:
    """An executable as bytes, with all of its program.

    Raises: JaxRuntimeError where the platform doesn't write executables.
    """
    facts = precompiled(loaded)
    if facts is None or not facts.content:
        return loaded.serialize()
    payload = zlib.decompress(facts.content)
    if not facts.program:
        return payload
    return serialized.with_program(payload, zlib.decompress(facts.program))


@dataclass(eq=False, kw_only=True)
class Executable:
    """A compiled program on its devices.

    Arguments are flat arrays in the order of the program; `consts` are arrays that it takes in front of them.

    Raises: UnsupportedError for a program with ordered effects and stated layouts.
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
    """Whether each argument's memory is given to the program; empty if none is."""
    effects: Sequence[Effect] = ()
    has_side_effects: bool = False
    calls_host: bool = False
    host_failures: Sequence[list[BaseException]] = ()
    """Where functions that the program calls put their failures, if they don't raise them."""
    is_small: bool = False
    """Whether it allocates little, so that XLA needn't be asked how much."""
    has_layouts: bool = False
    """Whether arguments or results may lie in memory otherwise than is usual on their devices."""
    keep_alive: Any = None
    digest: str = ""
    precompiled: Precompiled | None = None
    """Facts of an executable that wasn't compiled for this program."""
    shared: Any = None
    """What other programs find this executable by, which lives as long as one of them."""

    def __post_init__(self) -> None:
        if self.precompiled is not None:
            _note_user(self)
        if self.has_layouts and self.effects:
            raise UnsupportedError(
                f"`{self.name}` has effects in an order, and can't choose the order of elements in memory too.",
                do="Use unordered effects, or leave the layouts out of its formats.",
            )
        self.has_tokens = self.effects or abstract_token in (*self.in_avals, *self.out_avals)
        n_consts = len(self.consts)
        self.const_sharding = self.in_shardings[:n_consts]
        with config.transfer_guard_host_to_device("allow"):  # they are a part of the program
            self.consts = [
                shard_argument(c, s) for c, s in strict_zip(self.consts, self.const_sharding)
            ]
        self.argument_shardings = self.in_shardings[n_consts:]
        self._donated_avals = {a for a, d in zip(self.in_avals, self.donated, strict=False) if d}
        self.gives_plain_arrays = not any(map(is_wrapped, self.out_avals))
        """Whether all results are arrays as C++ makes them."""
        self.handlers = [
            _handler(aval, sharding, self.committed)
            for aval, sharding in strict_zip(self.out_avals, self.out_shardings)
        ]
        self._kept_shardings = [s for s, k in strict_zip(self.argument_shardings, self.used) if k]
        shardings = [*self.in_shardings, *self.out_shardings]
        self._shared = (
            None
            if all(sharding.is_fully_addressable for sharding in shardings)
            else SharedProgram(self.name, self.in_avals, self.loaded, shardings, self.digest)
        )

    def __call__(self, arguments: Operands) -> Values:
        """Results of the program on flat `arguments`; raises ForbiddenError under `no_execution`."""
        if config.no_execution.value:
            raise ForbiddenError(
                f"`{self.name}` has to run, which `no_execution` forbids.",
                do="Only trace and compile it: `jit(f).trace(...)`, `.lower(...)`, `.compile()`, `eval_shape`.",
            )
        operands = [x for x, k in strict_zip(arguments, self.used) if k]
        moved = [shard_argument(x, s) for x, s in strict_zip(operands, self._kept_shardings)]
        placed = [ordered_as(x, layout) for x, layout in strict_zip(moved, self.kept_layouts)]
        if self._may_donate_consts:
            self._keep_consts(placed)
        try:
            if self.effects or self.has_side_effects or self.host_failures:
                return self._run_with_tokens([*self.consts, *placed], operands)
            results = self._start(self.loaded.execute_sharded, [*self.consts, *placed], operands)
            return results.consume_with_handlers(self.handlers)
        except (JaxRuntimeError, ValueError) as error:
            raise_runtime_error(self.name, error)
        finally:
            for x, reordered in strict_zip(moved, placed):
                if reordered is not x and reordered.is_deleted():  # donated
                    x.delete()

    @functools.cached_property
    def _may_donate_consts(self) -> bool:
        """Whether an argument that is donated has the type of a constant, so that it may be the constant itself."""
        return any(
            _memory_type(c.aval) in map(_memory_type, self._donated_avals) for c in self.consts
        )

    def _keep_consts(self, placed: Values) -> None:
        """Copy those constants whose memory the call is about to give away: later calls need them."""
        donated = [d for d, k in zip(self.donated, self.used, strict=True) if k]
        taken = {p for x, d in strict_zip(placed, donated) if d for p in _pointers(x)}
        self.consts = [copied(c) if taken.intersection(_pointers(c)) else c for c in self.consts]

    def _start(self, start: Unary, arguments, operands: Operands):
        """`start(arguments)`, which were placed as needed from `operands`; with other processes, if there are any."""
        if self._shared is None:
            return start(arguments)
        return self._shared.launch(start, arguments, operands)

    def _run_with_tokens(self, arguments: Values, operands: Operands) -> Values:
        devices = self.in_devices
        incoming = [tokens.ordered(effect, devices) for effect in self.effects]
        start = functools.partial(self.loaded.execute_sharded, with_tokens=True)
        results = self._start(start, [*incoming, *arguments], operands)
        n = len(self.effects)
        token_handlers = [tokens.handler(devices)] * n
        outgoing = results.consume_with_handlers([*token_handlers, *self.handlers])
        tokens.last.update(zip(self.effects, outgoing, strict=False))
        token = results.consume_token()
        tokens.running[devices[0]] = token
        if self.host_failures:
            wait_for_token(token)
            for failures in filter(None, self.host_failures):
                first = failures[0]
                failures.clear()
                raise first from first.__cause__
        return outgoing[n:]

    @property
    def in_devices(self) -> list[Device]:
        """The devices that run the program, in order."""
        return list(self.loaded.local_devices())

    def fast_path(self, out_tree: Any, arguments: Operands) -> FastPath | None:
        """Data by which the C++ call path runs this program alone on arguments like these.

        None for programs that must come through Python: those with effects or host callbacks, those that take or give
        arrays of extended dtypes or give float0, those on which processes agree, and those large enough to run out of
        memory, whose errors C++ would raise as a bare ValueError, and those that may be given a constant's memory.
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
        """The layout in memory of each argument that the compiled program takes, constants left out.

        None for a device's own: XLA doesn't report layouts where there are tokens, and no other is asked for there.
        """
        if self.has_tokens:
            return [None] * len(self._kept_shardings)
        layouts = self.loaded.get_parameter_layouts()
        return layouts[len(layouts) - len(self._kept_shardings) :]

    @functools.cached_property
    def _has_run(self) -> bool:
        """Whether the program has run when a call returns of which all arguments were ready."""
        # Constants that are awaited delay a run; of a program from disk, XLA may count fewer flops than it had.
        is_compiled_here = self.precompiled is None or self.precompiled.source != "disk"
        return (
            is_compiled_here
            and runs_in_call(self.loaded)
            and all(c.is_ready() for c in self.consts)
        )

    @property
    def result_layouts(self) -> Results:
        """The layout in memory of each result, as `kept_layouts`."""
        if self.has_tokens:
            return [None] * len(self.out_avals)
        return self.loaded.get_output_layouts()

    @functools.cached_property
    def _is_large(self) -> bool:
        return not self.is_small and allocated_bytes(self.loaded) >= MIN_LARGE_BYTES


def _is_taken_as_it_is(argument, sharding: Sharding, layout: DeviceLayout) -> bool:
    """Whether C++ may hand over an argument: it asks Python to move an array only from another number of devices."""
    if type(argument) is not arrays.ArrayImpl:
        return type(argument) is not ExtendedArray
    # What the call has donated was handed over itself, so its order was right; some jaxlibs don't tell it any more.
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
    """Where the parts of an array on this process's devices lie in memory."""
    if type(array) is ExtendedArray:
        array = array.words
    return [shard.unsafe_buffer_pointer() for shard in arrays.shards_of(array)]


def is_wrapped(aval: ShapedArray) -> bool:
    """Whether values of this type are no arrays as C++ makes them."""
    dtype = getattr(aval, "dtype", dtypes.float0)
    return dtype == dtypes.float0 or isinstance(dtype, dtypes.ExtendedDType)


def _handler(aval: ShapedArray, sharding: Sharding, committed: bool) -> Unary:
    """Result handler: makes an array of its shards; zeros of NumPy for float0, an `ExtendedArray` for extended dtypes."""
    if not is_wrapped(aval):
        return result_handler(aval, sharding, committed)
    if aval is abstract_token:
        buffer = tokens.handler(sharding._internal_device_list)
        return lambda shards: Token(buffer(shards))
    if aval.dtype == dtypes.float0:
        return lambda shards: np.zeros(aval.shape, dtypes.float0)
    words = result_handler(aval_at(physical(aval), sharding), sharding, committed)
    return lambda shards: ExtendedArray(aval, words(shards))


def _layout_of_argument(argument):
    """Layout that C++ gets for an argument: None if it may take the argument as it is.

    C++ would read a large NumPy array's memory while the program runs, and show what is written to it meanwhile.
    An argument that has a layout comes to `shard_argument` instead, which copies it, and publishes it where somebody
    observes transfers; of small ones C++ gets copies.
    """
    if type(argument) in (arrays.ArrayImpl, bool, int, float, complex):
        return None
    return None if is_copied(argument) and not transfers_watched.value else COPIED_BY_PYTHON
