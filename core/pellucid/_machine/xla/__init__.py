"""The only package that imports jaxlib; it hides differences between jaxlib's releases.

Nothing here depends on programs, traces or user functions. Features are detected, never version numbers. The names
below come from modules that all other packages need; modules that load MLIR are imported by their own names.
"""

from . import bootstrap as _bootstrap  # isort: skip
from .arrays import (
    ARRAY_TYPES,
    LARGE,
    Array,
    ArrayImpl,
    ExtendedArray,
    assemble,
    set_tracer_class,
)
from .calls import COPIED_BY_PYTHON, UNHASHABLE, CallCache, FastPath
from .client import Client
from .flags import trace_context, transfers_watched
from .gpu_targets import GPU_TARGETS, GpuFacts, gpu_target
from .guards import let_through
from .pickling import by_name, name_in_pickles
from .plugins import PluginMissingError, compile_only_gpus, cudnn_version
from .profiling import module_id
from .pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    IsLeafWithPath,
    LibraryValues,
    PyTreeDef,
    SequenceKey,
    flatten,
    flatten_tangents,
    flatten_with_path,
    leaves_outside,
    library_types,
    opaque_types,
    stopping,
    treedef_tuple,
    unflatten_apart,
    unflatten_bare,
    unflatten_pairs,
    unflatten_tangents,
)
from .recursion import (
    SPARE_LEVELS,
    give_levels,
    guard,
    leave_level,
    restore_levels,
    take_levels,
)
from .shardings import Device, DeviceLayout, DeviceList, HloSharding, OpSharding, extend
from .traceback import JaxRuntimeError
