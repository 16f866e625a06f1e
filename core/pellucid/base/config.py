"""Options: typed, with environment names, scoped overrides, and a note of which caches they key.

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
from typing import Any, Generic, TypeVar

from pellucid.xla import flags, guards
from pellucid.xla.shardings import Device

from .errors import ConfigError
from .unused_options import OTHER_VARIABLES, UNUSED_OPTIONS

T = TypeVar("T")


class Option(Generic[T]):
    """One option: its global value, the current thread's value, and what it accepts.

    With `in_call_key`, compiled calls distinguish its values; with `in_trace_key`, traced programs do, too.
    """

    def __init__(
        self,
        name: str,
        default: T,
        parse: Callable[[Any], T],
        doc: str,
        *,
        in_call_key: bool = False,
        in_trace_key: bool = False,
        state: Any = None,
        on_change: Callable[[T], None] | None = None,
    ) -> None:
        self.name = name
        self.default = default
        self.parse = parse
        self.__doc__ = doc
        self.on_change = on_change
        self.state = state or flags.flag(
            f"pellucid_{name}",
            default,
            in_call_key=in_call_key or in_trace_key,
            in_trace_key=in_trace_key,
        )
        for prefix in ("PELLUCID", "JAX"):
            text = os.environ.get(f"{prefix}_{name.upper()}")
            if text is not None:
                self.state.set_global(self.parsed(text))
                break

    @property
    def value(self) -> T:
        """The value in force in this thread."""
        return self.state.value

    def parsed(self, value: Any) -> T:
        """`value` as this option stores it; raises ConfigError if it does not accept it."""
        try:
            return self.parse(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"option {self.name!r} does not take {value!r}.", got=str(error), do=self.__doc__
            ) from None

    def set(self, value: Any) -> None:
        """Set the value for every thread that has no override."""
        parsed = self.parsed(value)
        self.state.set_global(parsed)
        if self.on_change is not None:
            self.on_change(parsed)

    @contextlib.contextmanager
    def __call__(self, new_val: Any = True) -> Iterator[None]:
        """Override the value for this thread until the block ends."""
        previous = self.state.swap_local(self.parsed(new_val))
        try:
            yield
        finally:
            self.state.set_local(previous)

    def __bool__(self) -> bool:
        return bool(self.state.value)


def _boolean(value) -> bool:
    text = str(value).strip().lower()
    if text not in _BOOLEANS:
        raise ValueError("expected True or False")
    return _BOOLEANS[text]


_BOOLEANS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)


def _integer(value) -> int:
    if isinstance(value, bool):
        raise TypeError("expected an integer")
    return int(value)


def _seconds(value) -> float:
    seconds = float(value)
    if not seconds > 0:
        raise ValueError("expected a positive number of seconds")
    return seconds


def _text(value) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise TypeError("expected a string or None")


def _lower_case_text(value) -> str | None:
    return (_text(value) or "").lower() or None


def _one_of(*choices) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(map(repr, choices))}")
        return value

    return parse


def _only(accepted, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The parser of an option that has one value here."""

    def parse_checked(value: Any) -> Any:
        if parse(value) != accepted:
            raise ValueError(f"only {accepted!r} is supported")
        return accepted

    return parse_checked


_PLATFORM_KINDS = ("cpu", "gpu", "cuda", "rocm", "tpu")


def _device(value):
    if value is None or isinstance(value, Device) or value in _PLATFORM_KINDS:
        return value
    raise TypeError(f"expected a device, a platform's name {_PLATFORM_KINDS} or None")


_LEVELS = ("O0", "O1", "O2", "O3")


_LOG_LEVELS = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _log_level(value) -> str:
    level = str(value).upper()
    if level not in _LOG_LEVELS:
        raise ValueError(f"expected one of {', '.join(map(repr, _LOG_LEVELS))}")
    return level


_DUMPS = ("stablehlo", "jaxpr")


def _dumps(value) -> str:
    unknown = [mode for mode in str(value).split(",") if mode.strip() not in _DUMPS]
    if unknown:
        raise ValueError(f"expected some of {', '.join(map(repr, _DUMPS))}, separated by commas")
    return value


def _client_options(value) -> dict[str, Any] | None:
    if isinstance(value, str):
        pairs = [entry.partition(":") for entry in value.split(";") if entry.strip()]
        if not all(separator for _, separator, _ in pairs):
            raise ValueError("expected 'name:value;name:value', or a dictionary")
        return {name.strip(): text.strip() for name, _, text in pairs} or None
    if value is None or isinstance(value, dict):
        return value
    raise TypeError("expected 'name:value;name:value', or a dictionary")


def _optimization_level(value) -> str:
    level = "UNKNOWN" if value is None else value
    if type(level) is int and 0 <= level < len(_LEVELS):
        level = _LEVELS[level]
    if level not in ("UNKNOWN", *_LEVELS):
        raise ValueError(f"expected one of {', '.join(map(repr, _LEVELS))}, 0 to 3, or 'UNKNOWN'")
    return level


def _device_numbers(value) -> str:
    if value == "all" or (isinstance(value, str) and all(n.isdecimal() for n in value.split(","))):
        return value
    raise ValueError("expected 'all' or numbers of devices, '0,2' for example")


_GUARD_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_PRECISIONS = (
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "ANY_F8_ANY_F8_F32",
    "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16",
    "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip


class Config:
    """All options of pellucid, by name; the reference's names with `jax_` in front work too."""

    def __init__(self) -> None:
        self._options: dict[str, Option[Any]] = {}
        self._unused: dict[str, Any] = {}

    def declare(
        self, name: str, default: Any, parse: Callable[[Any], Any], doc: str, **more: Any
    ) -> Option[Any]:
        option = self._options[name] = Option(name, default, parse, doc, **more)
        return option

    def option(self, name: str) -> Option[Any]:
        """The option called `name`, with or without `jax_` or `pellucid_` in front."""
        short = name.removeprefix("jax_").removeprefix("pellucid_")
        option = self._options.get(short)
        if option is None:
            close = difflib.get_close_matches(short, [*self._options, *UNUSED_OPTIONS], n=3)
            raise ConfigError(
                f"there is no option {name!r}.",
                do=f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else "pellucid.config.options() lists all options.",
            )
        return option

    def update(self, name: str, value: Any) -> None:
        """Set the option called `name` for the process."""
        unused = _unused(name)
        if unused is None:
            self.option(name).set(value)
            return
        self._unused[unused] = value
        if value != UNUSED_OPTIONS[unused]:
            warnings.warn(
                f"the option {name!r} changes nothing in pellucid", UserWarning, stacklevel=2
            )

    def read(self, name: str) -> Any:
        """The value of the option called `name` in this thread."""
        unused = _unused(name)
        if unused is None:
            return self.option(name).value
        return self._unused.get(unused, UNUSED_OPTIONS[unused])

    def config_with_absl(self) -> None:
        """Define a flag of absl for each option, `--jax_enable_x64` for example; `app.run` applies those that are given.

        Raises: ConfigError if absl isn't installed.
        """
        flags_of_absl = _absl("flags")
        if "jax_enable_x64" not in flags_of_absl.FLAGS:
            for name, option in self._options.items():
                flags_of_absl.DEFINE_string(f"jax_{name}", None, option.__doc__ or name)
            _absl("app").call_after_init(self._apply_absl_flags)

    def parse_flags_with_absl(self) -> None:
        """Set options by the flags in `sys.argv`, for example `--jax_enable_x64=true`; others are left alone."""
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
        """The option `enable_x64` under its name in absl's flags."""
        return self.read("enable_x64")

    @property
    def values(self) -> dict[str, Any]:
        values = UNUSED_OPTIONS | self._unused | self.options()
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


def _unused(name: str) -> str | None:
    """The short name of an option of the reference that changes nothing here; None for others."""
    short = name.removeprefix("jax_")
    return next((n for n in (name, short) if n in UNUSED_OPTIONS), None)


def _absl(module: str) -> Any:
    try:
        return importlib.import_module(f"absl.{module}")
    except ImportError:
        raise ConfigError(
            "flags of absl need absl, which isn't installed.", do="pip install absl-py"
        ) from None


config = Config()
_declare = config.declare

enable_x64 = _declare(
    "enable_x64",
    False,
    _boolean,
    "Whether 64-bit types are kept; else they become 32-bit.",
    state=flags.enable_x64,
)
disable_jit = _declare(
    "disable_jit", False, _boolean, "Whether jit runs functions eagerly.", state=flags.disable_jit
)


def jit_disabled(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which jit runs functions eagerly; with `disable=False`, one in which it compiles them.

    >>> with jit_disabled(disable=True):
    ...     disable_jit.value
    True
    """
    return disable_jit(disable)


numpy_dtype_promotion = _declare(
    "numpy_dtype_promotion",
    "standard",
    _one_of("standard", "strict"),
    "'standard' or 'strict' (no implicit promotion).",
    in_trace_key=True,
)
numpy_rank_promotion = _declare(
    "numpy_rank_promotion",
    "allow",
    _one_of("allow", "warn", "raise"),
    "'allow', 'warn' or 'raise' when operands of different rank meet.",
    in_trace_key=True,
)
default_matmul_precision = _declare(
    "default_matmul_precision",
    None,
    _one_of(*_PRECISIONS),
    "Precision of products that state none.",
    in_trace_key=True,
)
call_repeated_layers = _declare(
    "call_repeated_layers",
    True,
    _boolean,
    "Whether equal layers that a Python loop makes are compiled as calls of one program.",
    in_trace_key=True,
)
enable_checks = _declare(
    "enable_checks", False, _boolean, "Whether every program is type-checked after every pass."
)
check_tracer_leaks = _declare(
    "check_tracer_leaks",
    False,
    _boolean,
    "Whether traced values that outlive their trace raise at once.",
    in_trace_key=True,
)
debug_nans = _declare(
    "debug_nans", False, _boolean, "Whether a NaN in a result raises.", in_call_key=True
)
debug_infs = _declare(
    "debug_infs", False, _boolean, "Whether an infinity in a result raises.", in_call_key=True
)
log_compiles = _declare(
    "log_compiles", False, _boolean, "Whether each trace and compilation is logged as a warning."
)
explain_cache_misses = _declare(
    "explain_cache_misses", False, _boolean, "Whether each miss is logged with its reason."
)
platforms = _declare(
    "platforms",
    None,
    _text,
    "Platforms to start, comma-separated, best first, for example 'cuda,cpu'.",
)
platform_name = _declare(
    "platform_name",
    None,
    _lower_case_text,
    "The platform to use by default.",
    in_trace_key=True,
)
num_cpu_devices = _declare(
    "num_cpu_devices",
    -1,
    _integer,
    "How many virtual CPU devices to make; -1 leaves it to XLA_FLAGS, else 1.",
)
cpu_collectives_implementation = _declare(
    "cpu_collectives_implementation",
    "gloo",
    _one_of("gloo", "mpi", "none", None),
    "What CPU devices of several processes exchange data with: 'gloo', 'mpi', or nothing ('none', None).",
)
peer_timeout_seconds = _declare(
    "peer_timeout_seconds",
    300.0,
    _seconds,
    "How many seconds a process waits for others to come to the same program, or to another common point.",
)
agreement_on_programs = _declare(
    "agreement_on_programs",
    "auto",
    _one_of("auto", "first_run", "new_order", "every_run"),
    "Before which runs of a program that exchanges data its processes wait until all run the same: 'first_run'; "
    "'new_order', also where it follows another program than before, and all other runs are compared afterwards; "
    "'every_run'; or 'auto', which is 'new_order' on CPUs and 'first_run' elsewhere.",
    in_call_key=True,
)
enable_preemption_service = _declare(
    "enable_preemption_service",
    True,
    _boolean,
    "Whether `multihost_utils.reached_preemption_sync_point` may watch for SIGTERM.",
)
enable_recoverability = _declare(
    "enable_recoverability",
    False,
    _only(False, _boolean),
    "Whether a job goes on after some of its processes failed; a new job has to be formed here.",
)
cuda_visible_devices = _declare(
    "cuda_visible_devices",
    "all",
    _device_numbers,
    "Numbers of the CUDA devices that this process uses, '0,2' for example, or 'all'.",
)
default_device = _declare(
    "default_device",
    None,
    _device,
    "Device of new arrays: a device, a platform's name, or None.",
    in_trace_key=True,
)
compilation_cache_dir = _declare(
    "compilation_cache_dir",
    None,
    _text,
    "Folder of the on-disk compilation cache; None turns it off.",
)
compilation_cache_session = _declare(
    "compilation_cache_session",
    None,
    _text,
    "Name of a session, such as a notebook's path: what its last process took from the on-disk cache is loaded ahead.",
)
enable_compilation_cache = _declare(
    "enable_compilation_cache",
    True,
    _boolean,
    "Whether the on-disk compilation cache is used where a folder is set.",
)
compilation_cache_max_size = _declare(
    "compilation_cache_max_size",
    -1,
    _integer,
    "Bytes that the on-disk cache may hold; -1 for no limit.",
)
persistent_cache_min_compile_time_secs = _declare(
    "persistent_cache_min_compile_time_secs",
    1.0,
    float,
    "Compilations quicker than this many seconds are not stored on disk.",
)
persistent_cache_min_entry_size_bytes = _declare(
    "persistent_cache_min_entry_size_bytes",
    0,
    _integer,
    "Executables smaller than this many bytes are not stored on disk.",
)
threefry_partitionable = _declare(
    "threefry_partitionable",
    True,
    _boolean,
    "Whether random bits are made by a scheme that shards without communication; False gives those of older releases.",
    in_call_key=True,
    in_trace_key=True,
)
default_prng_impl = _declare(
    "default_prng_impl",
    "threefry2x32",
    _one_of("threefry2x32", "rbg", "unsafe_rbg"),
    "Generator of new random keys.",
    in_call_key=True,
    in_trace_key=True,
)
enable_custom_prng = _declare(
    "enable_custom_prng",
    False,
    _boolean,
    "Whether PRNGKey makes typed keys.",
    in_call_key=True,
    in_trace_key=True,
)
legacy_prng_key = _declare(
    "legacy_prng_key",
    "allow",
    _one_of("allow", "warn", "error"),
    "What happens where the words of a key are given in place of a typed key.",
    in_trace_key=True,
)
random_seed_offset = _declare(
    "random_seed_offset",
    0,
    _integer,
    "What is added to every seed.",
    in_call_key=True,
    in_trace_key=True,
)
high_dynamic_range_gumbel = _declare(
    "high_dynamic_range_gumbel",
    False,
    _boolean,
    "Whether random.gumbel, and what is drawn by it, takes twice as many bits, for large numbers of low probability.",
    in_trace_key=True,
)
debug_key_reuse = _declare(
    "debug_key_reuse",
    False,
    _boolean,
    "Whether the use of a random key for a second time raises.",
    in_call_key=True,
)
softmax_custom_jvp = _declare(
    "softmax_custom_jvp",
    True,
    _only(True, _boolean),
    "Whether softmax has its own derivative rule.",
)
traceback_filtering = _declare(
    "traceback_filtering",
    "auto",
    _one_of("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
    "Which frames uncaught exceptions show: all ('off') or the user's ('quiet_remove_frames'); the others add a note.",
)
transfer_guard_host_to_device = _declare(
    "transfer_guard_host_to_device",
    "allow",
    _one_of(*_GUARD_LEVELS),
    "Level of the guard of transfers from host to device.",
    state=guards.GuardFlag("host_to_device"),
)
transfer_guard_device_to_device = _declare(
    "transfer_guard_device_to_device",
    "allow",
    _one_of(*_GUARD_LEVELS),
    "Level of the guard of transfers between devices.",
    state=guards.GuardFlag("device_to_device"),
)
transfer_guard_device_to_host = _declare(
    "transfer_guard_device_to_host",
    "allow",
    _one_of(*_GUARD_LEVELS),
    "Level of the guard of transfers from device to host.",
    state=guards.GuardFlag("device_to_host"),
)
transfer_guard = _declare(
    "transfer_guard",
    "allow",
    _one_of(*_GUARD_LEVELS),
    "Level of the guard of transfers in all directions.",
    state=guards.AllDirections(
        transfer_guard_host_to_device.state,
        transfer_guard_device_to_device.state,
        transfer_guard_device_to_host.state,
    ),
)
array_garbage_collection_guard = _declare(
    "array_garbage_collection_guard",
    None,
    _one_of(None, "allow", "log", "fatal"),
    "What happens when Python's garbage collector, not the last reference, frees an array: 'log' tells of it, "
    "'fatal' ends the process.",
    state=guards.CollectionGuardFlag("garbage_collect_array"),
)
thread_guard = _declare(
    "thread_guard",
    False,
    _boolean,
    "Whether programs over several processes may be started by this thread only.",
    state=guards.ThreadGuardFlag(),
)
no_tracing = _declare(
    "no_tracing",
    False,
    _boolean,
    "Whether tracing a function, or the first use of an operation, raises.",
)
no_execution = _declare(
    "no_execution", False, _boolean, "Whether running a program raises.", in_call_key=True
)
auto_pcast = _declare(
    "auto_pcast",
    True,
    _boolean,
    "Whether operands that vary over different manual mesh axes are made to vary over the same.",
    in_trace_key=True,
)
allow_f16_reductions = _declare(
    "allow_f16_reductions",
    True,
    _boolean,
    "Whether arrays of float16 and bfloat16 may be summed without a wider type.",
    in_trace_key=True,
)
use_shardy_partitioner = _declare(
    "use_shardy_partitioner",
    True,
    _only(True, _boolean),
    "Whether Shardy partitions programs; there is no other partitioner here.",
)
remove_size_one_mesh_axis_from_type = _declare(
    "remove_size_one_mesh_axis_from_type",
    False,
    _only(False, _boolean),
    "Whether mesh axes of size one are left out of sharded types.",
)
optimization_level = _declare(
    "optimization_level",
    "UNKNOWN",
    _optimization_level,
    "XLA backend optimization level: 'O0' to 'O3'; 'UNKNOWN' leaves XLA's own.",
    in_call_key=True,
)
disable_most_optimizations = _declare(
    "disable_most_optimizations",
    False,
    _boolean,
    "Whether XLA and LLVM leave out their expensive optimizations: programs compile sooner and run slower.",
    in_call_key=True,
)
exec_time_optimization_effort = _declare(
    "exec_time_optimization_effort",
    0.0,
    float,
    "Effort of XLA to make programs fast, from -1.0 to 1.0, on platforms that take it.",
    in_call_key=True,
)
memory_fitting_effort = _declare(
    "memory_fitting_effort",
    0.0,
    float,
    "Effort of XLA to make programs fit into memory, from -1.0 to 1.0, on platforms that take it.",
    in_call_key=True,
)
dump_ir_to = _declare(
    "dump_ir_to",
    "",
    lambda value: _text(value) or "",
    "Folder that gets each program that is lowered, in the forms of `dump_ir_modes`; empty for none.",
)
dump_ir_modes = _declare(
    "dump_ir_modes",
    "stablehlo",
    _dumps,
    "Forms in which programs are dumped: 'stablehlo', 'jaxpr', or both, separated by commas.",
)
captured_constants_warn_bytes = _declare(
    "captured_constants_warn_bytes",
    2_000_000_000,
    _integer,
    "Bytes of arrays that a jitted function closes over from which on it is warned about; -1 for never.",
)
raise_persistent_cache_errors = _declare(
    "raise_persistent_cache_errors",
    False,
    _boolean,
    "Whether a fault of the on-disk compilation cache raises; else it is logged.",
)
compilation_cache_include_metadata_in_key = _declare(
    "compilation_cache_include_metadata_in_key",
    False,
    _boolean,
    "Whether programs that differ in names and source lines alone have entries of their own on disk.",
)
explicit_x64_dtypes = _declare(
    "explicit_x64_dtypes",
    "warn",
    lambda value: _one_of("warn", "error")(str(getattr(value, "name", value)).lower()),
    "What happens where a 64-bit dtype is asked for while they are off: 'warn' or 'error'.",
)
logging_level = _declare(
    "logging_level",
    "NOTSET",
    _log_level,
    "The least level of what pellucid logs: 'DEBUG' to 'CRITICAL'; 'NOTSET' for all.",
)
logging.getLogger("pellucid").addFilter(
    lambda record: record.levelno >= getattr(logging, logging_level.value)
)
cpu_enable_async_dispatch = _declare(
    "cpu_enable_async_dispatch",
    True,
    _boolean,
    "Whether calls of programs on CPUs return before they have run; read when the CPU client starts.",
)
pjrt_client_create_options = _declare(
    "pjrt_client_create_options",
    None,
    _client_options,
    "Options for the clients of plug-ins, as 'name:value;name:value' or a dictionary; read when they start.",
)


def _warn_of_unknown_variables() -> None:
    """Warn of environment variables that begin with JAX_ and mean nothing."""
    names = {f"JAX_{name.upper()}" for name in (*config.options(), *UNUSED_OPTIONS)}
    names |= {name.upper() for name in UNUSED_OPTIONS} | OTHER_VARIABLES
    for variable in sorted(v for v in os.environ if v.startswith("JAX_") and v not in names):
        close = difflib.get_close_matches(variable, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        warnings.warn(
            f"the environment variable {variable} means nothing{hint}", UserWarning, stacklevel=2
        )


_warn_of_unknown_variables()
