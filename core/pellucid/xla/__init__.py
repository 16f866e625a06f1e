"""The one room that imports jaxlib; it irons out the differences between jaxlib's releases.

Nothing here knows a program, a trace or a user's function. Features are detected, never version numbers. The names below
come from modules that every other one needs; what loads MLIR is imported by its module's name.
"""

from . import bootstrap as _bootstrap  # isort: skip
from .arrays import ARRAY_TYPES, Array, ArrayImpl, ExtendedArray
from .flags import trace_context, transfers_watched
from .pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeafWithPath,
    LibraryValues,
    PyTreeDef,
    SequenceKey,
    flatten,
    flatten_tangents,
    flatten_with_path,
    leaves_outside,
    library_types,
    treedef_tuple,
    unflatten_apart,
    unflatten_pairs,
    unflatten_tangents,
)
from .shardings import Device, DeviceLayout, DeviceList, HloSharding, OpSharding, extend
from .traceback import JaxRuntimeError
