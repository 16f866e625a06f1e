"""Typed options with environment variables and scoped overrides; each states which caches distinguish its values.

An option is declared once, at the bottom of this file. `config.update("jax_enable_x64", True)` and
`config.jax_enable_x64` accept the reference's names; `option(value)` as a context manager overrides it
for the current thread.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pellucid._machine.xla import Device, by_name, flags, guards

from .blocks import block
from .errors import ConfigError
from .functional import copy_with_name
from .narrowing import is_dict
from .typing import Unary
from .unused_options import OTHER_VARIABLES, UNUSED_OPTIONS


class Option:
    """One option: its global and thread-local values, and the values that it accepts (by default those of `default`'s
    type).

    With `in_call_key`, the cache of compiled calls distinguishes its values; with `in_trace_key`, also that of traces.
    """

    name: str
    __name__: str

    def __init__(
        self,
        default: object,
        doc: str,
        parse: Unary | None = None,
        *,
        in_call_key: bool = False,
        in_trace_key: bool = False,
        state: Any = None,
    ) -> None:
        self.default: Any = default
        self.parse = parse or _PARSERS.get(type(default), _text)
        self.__doc__ = doc
        self.summary = doc.partition("\n")[0]
        self.in_call_key, self.in_trace_key = in_call_key or in_trace_key, in_trace_key
        self.state: Any = state

    def __reduce__(self) -> Any:
        return by_name(self)

    def declare(self, name: str) -> None:
        """Set the option's name, and its value from the environment."""
        self.name = self.__name__ = name
        key = f"pellucid_{name}"
        if not self.state:
            self.state = (
                flags.RareFlag(key, self.default, in_trace_key=self.in_trace_key)
                if self.in_call_key
                else flags.flag(key, self.default)
            )
        for prefix in ("PELLUCID", "JAX"):
            text = os.environ.get(f"{prefix}_{name.upper()}")
            if text is not None:
                self.set(text)
                break

    @property
    def value(self) -> Any:
        """The current value in this thread."""
        return self.state.value

    def parse_value(self, value: Any) -> Any:
        """`value` converted to the form in which it is stored; raises ConfigError if it isn't accepted."""
        try:
            return self.parse(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"option {self.name!r} does not take {value!r}.", got=str(error), do=self.summary
            ) from None

    def set(self, value: Any) -> None:
        """Set the value for all threads without an override."""
        self.state.set_global(self.parse_value(value))

    @block
    def __call__(self, new_val: Any = True) -> Iterator[None]:
        """Override the value in this thread until the block ends."""
        with flags.overridden(self.state, self.parse_value(new_val)):
            yield

    def __bool__(self) -> bool:
        return bool(self.value)


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _BOOLEANS:
        raise ValueError("expected True or False")
    return _BOOLEANS[text]


_BOOLEANS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("expected an integer")
    return int(value)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not seconds > 0:
        raise ValueError("expected a positive number of seconds")
    return seconds


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise TypeError("expected a string or None")


_PARSERS: dict[type, Unary] = {bool: _boolean, int: _integer, float: float}


def _folder(value: Any) -> str | None:
    text = _text(value and os.fspath(value))
    if text and "://" in text:
        raise ValueError("it must be a folder of this machine, not an address: mount the bucket")
    return text


def _one_of(*choices: object) -> Unary:
    def parse(value: Any) -> Any:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(map(repr, choices))}")
        return value

    return parse


def _only(accepted: bool) -> Callable[[Any], bool]:
    """A parser for an option that accepts only one value in pellucid."""

    def parse(value: Any) -> bool:
        if _boolean(value) != accepted:
            raise ValueError(f"only {accepted!r} is supported")
        return accepted

    return parse


_PLATFORM_KINDS = ("cpu", "gpu", "cuda", "rocm", "tpu")


def _device(value: Any) -> Any:
    if value is None or isinstance(value, Device) or value in _PLATFORM_KINDS:
        return value
    raise TypeError(f"expected a device, a platform's name {_PLATFORM_KINDS} or None")


_LEVELS = ("O0", "O1", "O2", "O3")


def _dumps(value: Any) -> str:
    if not {mode.strip() for mode in str(value).split(",")} <= {"stablehlo", "jaxpr"}:
        raise ValueError("expected some of 'stablehlo', 'jaxpr', separated by commas")
    return value


def _client_options(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        pairs = [entry.partition(":") for entry in value.split(";") if entry.strip()]
        if not all(separator for _, separator, _ in pairs):
            raise ValueError("expected 'name:value;name:value', or a dictionary")
        return {name.strip(): text.strip() for name, _, text in pairs} or None
    if value is None or is_dict(value):
        return value
    raise TypeError("expected 'name:value;name:value', or a dictionary")


def _optimization_level(value: Any) -> str:
    level = "UNKNOWN" if value is None else value
    if type(level) is int and 0 <= level < len(_LEVELS):
        level = _LEVELS[level]
    if level not in ("UNKNOWN", *_LEVELS):
        raise ValueError(f"expected one of {', '.join(map(repr, _LEVELS))}, 0 to 3, or 'UNKNOWN'")
    return level


def _device_numbers(value: Any) -> str:
    if value == "all" or (isinstance(value, str) and all(n.isdecimal() for n in value.split(","))):
        return value
    raise ValueError("expected 'all' or numbers of devices, '0,2' for example")


_guard_level = _one_of("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_precision = _one_of(
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "ANY_F8_ANY_F8_F32",
    "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16",
    "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip


class Config:
    """All options of pellucid by name; the reference's names with the prefix `jax_` work too."""

    def __init__(self, options: dict[str, Option]) -> None:
        self._options = options
        self._unused = dict(UNUSED_OPTIONS)
        for name, option in options.items():
            option.declare(name)

    def option(self, name: str) -> Option:
        """The option called `name`, with or without the prefix `jax_` or `pellucid_`."""
        short = name.removeprefix("jax_").removeprefix("pellucid_")
        option = self._options.get(short)
        if option is None:
            close = difflib.get_close_matches(short, [*self._options, *UNUSED_OPTIONS], n=3)
            raise ConfigError(
                f"there is no option {name!r}.",
                do=f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else "`config.options()` lists all options.",
            )
        return option

    def update(self, name: str, value: Any) -> None:
        """Set the option called `name` for the process."""
        short = name.removeprefix("jax_")
        if short not in UNUSED_OPTIONS:
            self.option(name).set(value)
            return
        self._unused[short] = value
        if value != UNUSED_OPTIONS[short]:
            warnings.warn(f"the option {name!r} changes nothing in pellucid", stacklevel=2)

    def read(self, name: str) -> Any:
        """The value of the option called `name` in this thread."""
        short = name.removeprefix("jax_")
        return self._unused[short] if short in self._unused else self.option(name).value

    def config_with_absl(self) -> None:
        """Define an absl flag for each option, such as `--jax_enable_x64`; `app.run` sets the options that are given.

        Raises: ConfigError if absl isn't installed.
        """
        flags_of_absl = _absl("flags")
        if "jax_enable_x64" not in flags_of_absl.FLAGS:
            for name, option in self._options.items():
                flags_of_absl.DEFINE_string(f"jax_{name}", None, option.summary)
            _absl("app").call_after_init(self._apply_absl_flags)

    def parse_flags_with_absl(self) -> None:
        """Set options from the flags in `sys.argv`, such as `--jax_enable_x64=true`; other flags are left alone."""
        self.config_with_absl()
        _absl("flags").FLAGS(sys.argv, known_only=True)
        self._apply_absl_flags()

    def _apply_absl_flags(self) -> None:
        flag_values = _absl("flags").FLAGS
        for name in self._options:
            if flag_values[f"jax_{name}"].present:
                self.update(name, flag_values[f"jax_{name}"].value)

    def options(self) -> dict[str, Any]:
        """All options with their values in this thread."""
        return {name: option.value for name, option in self._options.items()}

    @property
    def x64_enabled(self) -> bool:
        """The option `enable_x64`, under the name of its absl flag."""
        return self.read("enable_x64")

    @property
    def values(self) -> dict[str, Any]:
        values = self._unused | self.options()
        return {f"jax_{name}": value for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.update(name, value)


def _absl(module: str) -> Any:
    try:
        return importlib.import_module(f"absl.{module}")
    except ImportError:
        raise ConfigError(
            "flags of absl need absl, which isn't installed.", do="pip install absl-py"
        ) from None


enable_x64 = Option(
    False,
    """Whether 64-bit types are kept; else they become 32-bit.

    >>> with pl.enable_x64():
    ...     jnp.arange(2.0).dtype
    dtype('float64')
    """,
    state=flags.enable_x64,
)
disable_jit = Option(False, "Whether jit runs functions eagerly.", state=flags.disable_jit)


def jit_disabled(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which jit runs functions eagerly; with `disable=False`, one in which it compiles them.

    >>> with pl.disable_jit():
    ...     pl.jit(lambda x: print("runs with", x))(1.0)
    runs with 1.0
    """
    return disable_jit(disable)


jit_disabled = copy_with_name(jit_disabled, "disable_jit", "pellucid")


numpy_dtype_promotion = Option(
    "standard",
    """'standard' or 'strict' (no implicit promotion).

    >>> with pl.numpy_dtype_promotion("strict"):
    ...     jnp.ones(2) * jnp.arange(2)
    Traceback (most recent call last):
        ...
    pellucid.dtypes.TypePromotionError: No implicit promotion between float32 and int32.
    ...
    """,
    _one_of("standard", "strict"),
    in_trace_key=True,
)
numpy_rank_promotion = Option(
    "allow",
    """'allow', 'warn' or 'raise' when operands of different rank meet.

    >>> with pl.numpy_rank_promotion("raise"):
    ...     jnp.ones(2) + jnp.ones((1, 2))
    Traceback (most recent call last):
        ...
    pellucid.errors.ShapeError: jnp.add promotes ranks: operands of shapes (2,), (1, 2).
    ...
    """,
    _one_of("allow", "warn", "raise"),
    in_trace_key=True,
)
default_matmul_precision = Option(
    None,
    """Precision of products that state none.

    >>> with pl.default_matmul_precision("highest"):
    ...     print(pl.make_jaxpr(jnp.matmul)(np.ones(2), np.ones(2)))
    { lambda ; ... precision=(Precision.HIGHEST, Precision.HIGHEST) ...
    """,
    _precision,
    in_trace_key=True,
)
call_repeated_layers = Option(
    True,
    "Whether equal layers that a Python loop makes are compiled as calls of one program.",
    in_trace_key=True,
)
masked_gradients = Option(
    False,
    """Whether cotangents carry which of their elements are structurally zero, so that what isn't selected makes no NaN.

    The option in force where a function is differentiated in reverse mode holds for its backward pass.

    >>> f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)
    >>> with pl.masked_gradients():
    ...     print(pl.grad(f)(0.0))
    0.0
    """,
    in_trace_key=True,
)
exact_arithmetic = Option(
    False,
    """Whether products and quotients in compiled programs are rounded as in eager operations, each by itself.

    The option in force where the outermost function is traced holds for its whole program.

    >>> x = np.float32([0.1, 0.7])
    >>> with pl.exact_arithmetic():
    ...     "stablehlo.compare" in pl.jit(lambda x: x * x - 1).lower(x).as_text()
    True
    """,
    in_trace_key=True,
)
enable_checks = Option(
    False,
    """Whether every program is type-checked after every pass.

    >>> with pl.enable_checks():
    ...     pl.config.jax_enable_checks
    True
    """,
)
check_tracer_leaks = Option(
    False,
    """Whether traced values that outlive their trace raise at once.

    >>> leaked = []
    >>> with pl.check_tracer_leaks():
    ...     pl.jit(leaked.append)(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.LeakError: tracing `append` left 1 traced value(s) alive.
    ...
    """,
    in_trace_key=True,
)
debug_nans = Option(
    False,
    """Whether a NaN in a result raises.

    >>> with pl.debug_nans():
    ...     jnp.log(-1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.NonFiniteError: `log` gave a result with NaN in it.
    ...
    """,
    in_call_key=True,
)
debug_infs = Option(
    False,
    """Whether an infinity in a result raises.

    >>> with pl.debug_infs():
    ...     1 / jnp.zeros(1)
    Traceback (most recent call last):
        ...
    pellucid.errors.NonFiniteError: `divide` gave a result with infinity in it.
    ...
    """,
    in_call_key=True,
)
log_compiles = Option(
    False,
    """Whether each trace and compilation is logged as a warning.

    >>> import logging, sys
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> logging.getLogger("pellucid").addHandler(handler)
    >>> with pl.log_compiles():
    ...     pl.jit(lambda x: x + 17)(1)
    compiled <lambda> in ... s (...)
    Array(18, dtype=int32, weak_type=True)
    >>> logging.getLogger("pellucid").removeHandler(handler)
    """,
)
explain_cache_misses = Option(
    False,
    """Whether each miss is logged with its reason.

    >>> doubled = pl.jit(lambda x: 2 * x)
    >>> import logging, sys
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> logging.getLogger("pellucid").addHandler(handler)
    >>> with pl.explain_cache_misses():
    ...     doubled(1), doubled(1.5)
    `<lambda>` was traced ...
      because it was never called before
    `<lambda>` was traced ...
      because x: was i32[] of a Python number, is f32[] of a Python number. Convert it before the call.
    (Array(2, dtype=int32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    >>> logging.getLogger("pellucid").removeHandler(handler)
    """,
)
platforms = Option(None, "Platforms to start, comma-separated, best first, for example 'cuda,cpu'.")
platform_name = Option(
    None,
    "The platform to use by default.",
    lambda value: (_text(value) or "").lower() or None,
    in_trace_key=True,
)
num_cpu_devices = Option(
    -1, "How many virtual CPU devices to make; -1 leaves it to XLA_FLAGS, else 1."
)
cpu_collectives_implementation = Option(
    "gloo",
    "What CPU devices of several processes exchange data with: 'gloo', 'mpi', or nothing ('none', None).",
    _one_of("gloo", "mpi", "none", None),
)
peer_timeout_seconds = Option(
    300.0,
    "How many seconds a process waits for others to come to the same program, or to another common point.",
    _seconds,
)
agreement_on_programs = Option(
    "auto",
    "Before which runs of a program that exchanges data its processes wait until all run the same: 'first_run'; "
    "'new_order', also where it follows another program than before, and all other runs are compared afterwards; "
    "'every_run'; or 'auto', which is 'new_order' on CPUs and 'first_run' elsewhere.",
    _one_of("auto", "first_run", "new_order", "every_run"),
    in_call_key=True,
)
enable_preemption_service = Option(
    True, "Whether `multihost_utils.reached_preemption_sync_point` may watch for SIGTERM."
)
enable_recoverability = Option(
    False,
    "Whether a job goes on after some of its processes failed; a new job has to be formed here.",
    _only(False),
)
cuda_visible_devices = Option(
    "all",
    "Numbers of the CUDA devices that this process uses, '0,2' for example, or 'all'.",
    _device_numbers,
)
default_device = Option(
    None,
    """Device of new arrays: a device, a platform's name, or None.

    >>> with pl.default_device(pl.devices("cpu")[1]):
    ...     jnp.zeros(2).device
    CpuDevice(id=1)
    """,
    _device,
    in_trace_key=True,
)
compilation_cache_dir = Option(
    None, "Folder of the on-disk compilation cache; None turns it off.", _folder
)
compilation_cache_session = Option(
    None,
    "Name of a session, such as a notebook's path: what its last process took from the on-disk cache is loaded ahead.",
)
enable_compilation_cache = Option(
    True, "Whether the on-disk compilation cache is used where a folder is set."
)
compilation_cache_max_size = Option(-1, "Bytes that the on-disk cache may hold; -1 for no limit.")
persistent_cache_min_compile_time_secs = Option(
    1.0, "Compilations quicker than this many seconds are not stored on disk."
)
persistent_cache_min_entry_size_bytes = Option(
    0, "Executables smaller than this many bytes are not stored on disk."
)
threefry_partitionable = Option(
    True,
    """Whether random bits are made by a scheme that shards without communication; False gives those of older releases.

    >>> key = pl.random.key(0)
    >>> with pl.threefry_partitionable(False):
    ...     old = pl.random.bits(key, (2,))
    >>> print(old, pl.random.bits(key, (2,)))
    [ 928981903 3453687069] [4070199207 4202968722]
    """,
    in_trace_key=True,
)
default_prng_impl = Option(
    "threefry2x32",
    """Generator of new random keys.

    >>> with pl.default_prng_impl("rbg"):
    ...     pl.random.key(0).dtype
    key<rbg>
    """,
    _one_of("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg"),
    in_trace_key=True,
)
enable_custom_prng = Option(
    False,
    """Whether PRNGKey makes typed keys.

    >>> with pl.enable_custom_prng():
    ...     pl.random.PRNGKey(0).dtype
    key<fry>
    """,
    in_trace_key=True,
)
legacy_prng_key = Option(
    "allow",
    """Reaction to an array of key words in place of a typed key.

    >>> with pl.legacy_prng_key("error"):
    ...     pl.random.uniform(pl.random.PRNGKey(0))
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentTypeError: uniform got the words of a key, where typed keys are expected.
    ...
    """,
    _one_of("allow", "warn", "error"),
    in_trace_key=True,
)
random_seed_offset = Option(0, "What is added to every seed.", in_trace_key=True)
high_dynamic_range_gumbel = Option(
    False,
    "Whether random.gumbel, and what is drawn by it, takes twice as many bits, for large numbers of low probability.",
    in_trace_key=True,
)
pallas_enable_debug_checks = Option(
    False,
    """Whether `debug_check` of kernels checks something.

    >>> with pl.experimental.pallas.enable_debug_checks(True):
    ...     pl.experimental.pallas.debug_checks_enabled()
    True
    """,
    in_trace_key=True,
)


def _simulation(value: object) -> object:
    if value is None or value == "none":
        return None
    if not hasattr(value, "dma_execution_mode"):
        raise TypeError("None, or the InterpretParams of kernels")
    return value


simulated_kernels = Option(
    None,
    "The `InterpretParams` with which kernels run in the simulator that don't ask for it; None for those that do alone.",
    _simulation,
    in_trace_key=True,
)
disable_bwd_checks = Option(
    False,
    "Whether cotangents that a backward rule of `custom_vjp` returns are taken unchecked and unconverted.",
    in_trace_key=True,
)
debug_key_reuse = Option(
    False,
    """Whether the use of a random key for a second time raises.

    >>> key = pl.random.key(0)
    >>> with pl.debug_key_reuse():
    ...     pl.random.uniform(key) + pl.random.normal(key)
    Traceback (most recent call last):
        ...
    pellucid.errors.KeyReuseError: `normal` uses a random key for a second time.
    ...
    """,
    in_call_key=True,
)
softmax_custom_jvp = Option(
    True,
    """Whether softmax has its own derivative rule.

    >>> with pl.softmax_custom_jvp(False):
    ...     pass
    Traceback (most recent call last):
        ...
    pellucid.errors.ConfigError: option 'softmax_custom_jvp' does not take False.
      only True is supported
    ...
    """,
    _only(True),
)
traceback_filtering = Option(
    "auto",
    "Which frames uncaught exceptions show: all ('off') or the user's ('quiet_remove_frames'); the others add a note.",
    _one_of("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
)
transfer_guard_host_to_device = Option(
    "allow",
    """Level of the guard of transfers from host to device.

    >>> with pl.transfer_guard_host_to_device("disallow_explicit"):
    ...     pl.device_put(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.TransferGuardError: a host-to-device transfer happened that the transfer guard forbids.
    ...
    """,
    _guard_level,
    state=guards.GuardFlag("host_to_device"),
)
transfer_guard_device_to_device = Option(
    "allow",
    """Level of the guard of transfers between devices.

    >>> x = jnp.ones(2)
    >>> with pl.transfer_guard_device_to_device("disallow_explicit"):
    ...     pl.device_put(x, pl.devices()[1])
    Traceback (most recent call last):
        ...
    pellucid.errors.TransferGuardError: a device-to-device transfer happened that the transfer guard forbids.
    ...
    """,
    _guard_level,
    state=guards.GuardFlag("device_to_device"),
)
transfer_guard_device_to_host = Option(
    "allow",
    """Level of the guard of transfers from device to host.

    >>> with pl.transfer_guard_device_to_host("disallow"):
    ...     pl.config.jax_transfer_guard_device_to_host
    'disallow'
    """,
    _guard_level,
    state=guards.GuardFlag("device_to_host"),
)
transfer_guard = Option(
    "allow",
    """Level of the guard of transfers in all directions.

    >>> with pl.transfer_guard("disallow"):
    ...     jnp.sin(np.ones(2))
    Traceback (most recent call last):
        ...
    pellucid.errors.TransferGuardError: a host-to-device transfer happened that the transfer guard forbids.
    ...
    """,
    _guard_level,
    state=guards.AllDirections(
        transfer_guard_host_to_device.state,
        transfer_guard_device_to_device.state,
        transfer_guard_device_to_host.state,
    ),
)
array_garbage_collection_guard = Option(
    None,
    """What happens when Python's garbage collector, not the last reference, frees an array: 'log' tells of it, 'fatal' ends the process.

    >>> with pl.array_garbage_collection_guard("log"):
    ...     pl.config.jax_array_garbage_collection_guard
    'log'
    """,
    _one_of(None, "allow", "log", "fatal"),
    state=guards.CollectionGuardFlag("garbage_collect_array"),
)
thread_guard = Option(
    False,
    """Whether programs over several processes may be started by this thread only.

    >>> with pl.thread_guard():
    ...     bool(pl.thread_guard)
    True
    """,
    state=guards.ThreadGuardFlag(),
)
no_tracing = Option(
    False,
    """Whether tracing a function, or the first use of an operation, raises.

    >>> with pl.no_tracing():
    ...     pl.jit(lambda x: 19 * x)(1)
    Traceback (most recent call last):
        ...
    pellucid.errors.ForbiddenError: `<lambda>` has to be traced, which `no_tracing` forbids.
    ...
    """,
)
no_execution = Option(
    False,
    """Whether running a program raises.

    >>> with pl.no_execution():
    ...     jnp.sin(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.ForbiddenError: `sin` has to run, which `no_execution` forbids.
    ...
    """,
    in_call_key=True,
)
auto_pcast = Option(
    True,
    """Whether operands that vary over different manual mesh axes are made to vary over the same.

    >>> mesh = pl.make_mesh((1,), ("i",), pl.sharding.AxisType.Auto)
    >>> with pl.auto_pcast(False):
    ...     pl.shard_map(jnp.multiply, mesh=mesh, in_specs=(pl.P("i"), pl.P()), out_specs=pl.P("i"))(jnp.ones(2), 3.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.CollectiveError: `mul` needs operands that vary over the same mesh axes.
    ...
    """,
    in_trace_key=True,
)
allow_f16_reductions = Option(
    True,
    """Whether arrays of float16 and bfloat16 may be summed without a wider type.

    >>> with pl.allow_f16_reductions(False):
    ...     lax.reduce_sum(jnp.ones(2, "float16"), (0,))
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: reduce_sum of 16-bit floating numbers is forbidden by `allow_f16_reductions`.
    ...
    """,
    in_trace_key=True,
)
use_shardy_partitioner = Option(
    True, "Whether Shardy partitions programs; there is no other partitioner here.", _only(True)
)
remove_size_one_mesh_axis_from_type = Option(
    False,
    """Whether mesh axes of size one are left out of sharded types.

    >>> with pl.remove_size_one_mesh_axis_from_type(True):
    ...     pass
    Traceback (most recent call last):
        ...
    pellucid.errors.ConfigError: option 'remove_size_one_mesh_axis_from_type' does not take True.
      only False is supported
    ...
    """,
    _only(False),
)
optimization_level = Option(
    "UNKNOWN",
    "XLA backend optimization level: 'O0' to 'O3'; 'UNKNOWN' leaves XLA's own.",
    _optimization_level,
    in_call_key=True,
)
disable_most_optimizations = Option(
    False,
    "Whether XLA and LLVM leave out their expensive optimizations: programs compile sooner and run slower.",
    in_call_key=True,
)
exec_time_optimization_effort = Option(
    0.0,
    "Effort of XLA to make programs fast, from -1.0 to 1.0, on platforms that take it.",
    in_call_key=True,
)
memory_fitting_effort = Option(
    0.0,
    "Effort of XLA to make programs fit into memory, from -1.0 to 1.0, on platforms that take it.",
    in_call_key=True,
)
dump_ir_to = Option(
    "",
    "Folder that gets each program that is lowered, in the forms of `dump_ir_modes`; empty for none.",
    lambda value: _folder(value) or "",
)
dump_ir_modes = Option(
    "stablehlo",
    "Forms in which programs are dumped: 'stablehlo', 'jaxpr', or both, separated by commas.",
    _dumps,
)
captured_constants_warn_bytes = Option(
    2_000_000_000,
    "Bytes of arrays that a jitted function closes over from which on it is warned about; -1 for never.",
)
raise_persistent_cache_errors = Option(
    False, "Whether a fault of the on-disk compilation cache raises; else it is logged."
)
compilation_cache_include_metadata_in_key = Option(
    False,
    "Whether programs that differ in names and source lines alone have entries of their own on disk.",
)
check_static_indices = Option(
    False,
    "Whether Python integers that are out of bounds as indices raise; else they are moved to the nearest bound.",
    in_trace_key=True,
)
explicit_x64_dtypes = Option(
    "warn",
    "What happens where a 64-bit dtype is asked for while they are off: 'warn', 'error' or 'allow'.",
    lambda value: _one_of("warn", "error", "allow")(str(getattr(value, "name", value)).lower()),
    in_trace_key=True,
)
logging_level = Option(
    "NOTSET",
    "The least level of what pellucid logs: 'DEBUG' to 'CRITICAL'; 'NOTSET' for all.",
    lambda value: _one_of("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")(
        str(value).upper()
    ),
)
logging.getLogger("pellucid").addFilter(
    lambda record: record.levelno >= getattr(logging, logging_level.value)
)
cpu_enable_async_dispatch = Option(
    True,
    "Whether calls of programs on CPUs return before they have run; read when the CPU client starts.",
)
pjrt_client_create_options = Option(
    None,
    "Options for the clients of plug-ins, as 'name:value;name:value' or a dictionary; read when they start.",
    _client_options,
)


config = Config({name: value for name, value in globals().items() if isinstance(value, Option)})


def _warn_of_unknown_variables() -> None:
    """Warn about environment variables that start with JAX_ but name no option."""
    names = {f"JAX_{name.upper()}" for name in (*config.options(), *UNUSED_OPTIONS)}
    names |= {name.upper() for name in UNUSED_OPTIONS} | OTHER_VARIABLES
    for variable in sorted(v for v in os.environ if v.startswith("JAX_") and v not in names):
        close = difflib.get_close_matches(variable, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        warnings.warn(f"the environment variable {variable} means nothing{hint}", stacklevel=2)


_warn_of_unknown_variables()
