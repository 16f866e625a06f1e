"""pellucid: see through your array programs.

The public names of the core. `import pellucid` loads next to nothing: a name's module loads when the name is
first used, and so do installed tools (`viz`, `profiler`, `debugger`), which are found by entry point, so that
core knows none of them. `__init__.pyi` shows the same names to type checkers; a test compares the two.
"""

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from pellucid import wiring as _wiring
from pellucid._machine.xla import bootstrap as _bootstrap
from pellucid.version import __version__ as __version__, __version_info__ as __version_info__

_NAMES: dict[str, tuple[str, ...]] = {
    "pellucid._machine.base.caching": ("clear_caches",),
    "pellucid._machine.base.config": (
        "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast", "check_tracer_leaks",
        "config", "debug_infs", "debug_key_reuse", "debug_nans", "default_device", "default_matmul_precision",
        "default_prng_impl", "enable_checks", "enable_custom_prng", "enable_x64", "exact_arithmetic",
        "explain_cache_misses", "legacy_prng_key", "log_compiles", "masked_gradients", "no_execution", "no_tracing",
        "numpy_dtype_promotion", "numpy_rank_promotion", "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp",
        "thread_guard", "threefry_partitionable", "transfer_guard",
        "transfer_guard_device_to_device", "transfer_guard_device_to_host",
        "transfer_guard_host_to_device",
    ),
    "pellucid._machine.base.dtypes": ("float0",),
    "pellucid._machine.base.events": ("Observer", "observe"),
    "pellucid._machine.base.user_context": ("make_user_context",),
    "pellucid._machine.callbacks.pure": ("pure_callback",),
    "pellucid._machine.higher_order.custom_gradient": ("closure_convert", "custom_gradient"),
    "pellucid._machine.higher_order.custom_jvp": ("custom_jvp",),
    "pellucid._machine.higher_order.custom_vjp": ("custom_vjp",),
    "pellucid._machine.higher_order.forward_backward": ("fwd_and_bwd",),
    "pellucid._machine.higher_order.jitted": ("jit",),
    "pellucid._machine.higher_order.misses": ("explain_misses",),
    "pellucid._machine.higher_order.remat": ("checkpoint", "remat"),
    "pellucid._machine.higher_order.remat_policies": ("checkpoint_policies",),
    "pellucid._machine.higher_order.shape_dtype_struct": ("ShapeDtypeStruct",),
    "pellucid._machine.higher_order.stages": ("eval_shape", "make_jaxpr", "typeof"),
    "pellucid._machine.primitives.dslice": ("ds",),
    "pellucid.numpy.operators": ("Array",),
    "pellucid._machine.parallel.pmap": ("pmap",),
    "pellucid._machine.parallel.shard_map": ("shard_map", "smap"),
    "pellucid._machine.primitives.placement": ("device_put",),
    "pellucid._machine.primitives.reshard": ("reshard",),
    "pellucid._machine.runtime.array": ("Shard",),
    "pellucid._machine.runtime.assembly": (
        "make_array_from_callback", "make_array_from_process_local_data",
        "make_array_from_single_device_arrays",
    ),
    "pellucid._machine.refs.access": ("empty_ref", "free_ref", "freeze", "new_ref"),
    "pellucid._machine.refs.primitives": ("Ref",),
    "pellucid._machine.runtime.environment": ("print_environment_info",),
    "pellucid._machine.runtime.memory": ("live_arrays",),
    "pellucid._machine.runtime.platforms": (
        "default_backend", "device_count", "devices", "host_count", "host_id", "host_ids",
        "local_device_count", "local_devices",
        "process_count", "process_index", "process_indices",
    ),
    "pellucid._machine.runtime.tokens": ("effects_barrier",),
    "pellucid._machine.runtime.transfer": (
        "block_until_ready", "copy_to_host_async", "device_get", "device_put_replicated",
        "device_put_sharded",
    ),
    "pellucid._machine.sharding": ("NamedSharding", "set_mesh"),
    "pellucid._machine.sharding.topology": ("make_mesh",),
    "pellucid._machine.tracing.current": ("ensure_compile_time_eval", "named_call", "named_scope"),
    "pellucid._machine.transforms.gradient": ("grad", "linear_transpose", "value_and_grad", "vjp"),
    "pellucid._machine.transforms.jacobians": ("hessian", "jacfwd", "jacobian", "jacrev"),
    "pellucid._machine.transforms.jvp": ("jvp",),
    "pellucid._machine.transforms.linearize": ("linearize",),
    "pellucid._machine.transforms.vmap": ("vmap",),
    "pellucid._machine.xla.client": ("Device",),
}  # fmt: skip
_RENAMED = {
    "P": ("pellucid._machine.sharding", "PartitionSpec"),
    "checking_leaks": ("pellucid._machine.base.config", "check_tracer_leaks"),
    "disable_jit": ("pellucid._machine.base.config", "jit_disabled"),
}
_SUBMODULES = (
    "ad_checkpoint", "analysis", "api_util", "core", "custom_batching", "custom_derivatives", "debug", "distributed",
    "dlpack", "dtypes",
    "errors", "events", "example_libraries", "experimental", "export", "extend", "ffi", "flatten_util", "image", "interpreters", "introspect", "lax",
    "memory", "monitoring",
    "nn", "numpy", "ops", "random", "ref", "scipy", "sharding", "stages", "test_util", "tree", "tree_util",
    "typing",
)  # fmt: skip
_ORIGINS = {name: (module, name) for module, names in _NAMES.items() for name in names} | _RENAMED

__all__ = sorted(_ORIGINS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a public name: one of the core, a submodule, or an installed tool."""
    origin = _ORIGINS.get(name)
    if origin is not None:
        module, original = origin
        value = getattr(importlib.import_module(module), original)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"pellucid.{name}")
    else:
        value = None if name.startswith("_") else _tool(name)
        if value is None:
            raise AttributeError(f"module 'pellucid' has no attribute {name!r}")
    globals()[name] = value
    return value


def _tool(name: str) -> Any:
    """The installed tool called `name`, loaded; None if there is none."""
    metadata = importlib.import_module("importlib.metadata")  # slow to import, and seldom needed
    entry_points = [
        tool for tool in metadata.entry_points(group="pellucid.tools") if tool.name == name
    ]
    return entry_points[0].load() if entry_points else None


class _Tools:
    """Importer of installed tools as submodules: `from pellucid.profiler import profile`."""

    def __init__(self, tool: ModuleType) -> None:
        self.tool = tool
        self.spec = tool.__spec__

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        package, _, tool_name = name.rpartition(".")
        tool = _tool(tool_name) if package == __name__ else None
        if tool is None:
            return None
        loader: Any = cls(tool)
        return importlib.machinery.ModuleSpec(name, loader)

    def create_module(self, spec: Any) -> ModuleType:
        return self.tool

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system replaced it


sys.meta_path.append(_Tools)


def __dir__() -> list[str]:
    """The names that users call: public names, submodules and installed tools, without the rooms of the machine."""
    metadata = importlib.import_module("importlib.metadata")
    tools = {tool.name for tool in metadata.entry_points(group="pellucid.tools")}
    own = {name for name in globals() if name.startswith("__")}
    return sorted({*own, *_ORIGINS, *_SUBMODULES, *tools})
