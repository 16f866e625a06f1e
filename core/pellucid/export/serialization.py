"""Exported programs as bytes: the FlatBuffers schema of the reference's `jax.export`, written and read.

Numbers are those of the schema's fields. Written are the fields that readers of the reference since 0.10 take; read are
also the older forms of types and shardings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pellucid._machine.base import ArgumentValueError, Size, digests, dtypes, strict_zip
from pellucid._machine.ir import Effect, ShapedArray, aval_at, shaped_array
from pellucid._machine.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
)
from pellucid._machine.sharding.memory import MemorySpace
from pellucid._machine.sharding.partition_spec import UNCONSTRAINED
from pellucid._machine.xla.shardings import HloSharding, OpSharding
from pellucid.random.keys import key_dtype

from .checks import DisabledSafetyCheck
from .errors import SerializationError
from .flatbuffers import Table, decode, encode
from .scopes import SymbolicScope
from .shape_texts import parsed_sizes
from .trees import decode_tree, encode_tree

_SEAL_SLOT = 26
"""The field that marks files with a digest at the end. The reference's files have neither; its readers ignore both."""
_WRITTEN_VERSION = 3
"""The version that every file states; readers don't look at it."""
_DTYPES: list[Any] = [
    np.dtype(x)
    for x in (
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16, ml_dtypes.int4,
        ml_dtypes.uint4, ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, dtypes.float0, ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e3m4, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn,
    )
]  # fmt: skip
"""Dtypes by their number in files; dtypes of keys come after them."""
_KEY_GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")
_MEMORY_SPACES = (None, MemorySpace.Device, MemorySpace.Host, MemorySpace.Any)
_AXIS_TYPES = (None, AxisType.Auto, AxisType.Explicit, AxisType.Manual)
_PLATFORM_CHECK, _CUSTOM_CALL_CHECK = 0, 1


def serialize_fields(exported: Any, vjp_order: int) -> bytes:
    """The bytes of an `Exported`, with its derivatives up to `vjp_order`.

    Raises: SerializationError for what the format can't hold; ExportError where it has no derivative.
    """
    content = encode(_encode_exported(exported, vjp_order) | {_SEAL_SLOT: np.bool_(True)})
    return content + digests.seal(content)


def deserialize_fields(data: bytes | bytearray | memoryview) -> tuple[dict[str, Any], Any]:
    """(the fields of an `Exported`, the same of its derivative or None).

    Raises: SerializationError for bytes that are no exported program.
    """
    try:
        table = decode(data)
        digests.check_seal(data, is_required=table.number(_SEAL_SLOT, np.bool_))
        return _decode_exported(table)
    except digests.DamagedError as error:
        raise SerializationError(
            "this exported program is damaged.",
            got=str(error),
            do="Get the file again, or export the function again.",
        ) from None
    except (struct.error, UnicodeDecodeError, IndexError, TypeError) as error:
        if isinstance(error, SerializationError):
            raise
        raise SerializationError(
            "these bytes are no exported program.",
            got=f"{len(data)} bytes: {error}",
            do="Give `deserialize` what `Exported.serialize` returned.",
        ) from error


class _Uniques:
    """Values in the order in which they were met first, each once."""

    def __init__(self) -> None:
        self.positions: dict[Any, int] = {}

    def position(self, value: Any) -> int:
        return self.positions.setdefault(value, len(self.positions))


def _encode_exported(exported: Any, vjp_order: int) -> dict[int, Any]:
    avals, meshes, shardings = _Uniques(), _Uniques(), _Uniques()

    def aval_positions(values: Iterable[Any]) -> np.ndarray:
        return np.array([avals.position(a) for a in values], np.uint32)

    def sharding_positions(values: Iterable[Any]) -> np.ndarray:
        positions = [0 if s is None else 1 + shardings.position(s) for s in values]
        return np.array(positions, np.uint32)

    fields = {
        0: np.uint16(_WRITTEN_VERSION),
        1: exported.fun_name,
        2: encode_tree(exported.in_tree),
        4: encode_tree(exported.out_tree),
        9: list(exported.platforms),
        10: [{0: _effect_name(e)} for e in exported.ordered_effects],
        11: [{0: _effect_name(e)} for e in exported.unordered_effects],
        12: [_encode_check(check) for check in exported.disabled_safety_checks],
        13: exported.mlir_module_serialized,
        14: np.uint16(exported.calling_convention_version),
        15: np.array(exported.module_kept_var_idx, np.uint16),
        16: np.bool_(exported.uses_global_constants),
        17: _encode_exported(exported.vjp(), vjp_order - 1) if vjp_order > 0 else None,
        18: np.uint32(exported.nr_devices),
        22: aval_positions(exported.in_avals),
        23: aval_positions(exported.out_avals),
        24: sharding_positions(exported._in_named_shardings),
        25: sharding_positions(exported._out_named_shardings),
    }
    for sharding in shardings.positions:
        meshes.position(sharding.mesh.abstract_mesh)
    return fields | {
        19: [_encode_aval(aval) for aval in avals.positions],
        20: [_encode_mesh(mesh) for mesh in meshes.positions],
        21: [_encode_sharding(sharding, meshes) for sharding in shardings.positions],
    }


def _decode_exported(table: Table) -> tuple[dict[str, Any], Any]:
    scope = SymbolicScope()  # constraints are in the module alone, as assertions
    avals = [_decode_aval(t, scope) for t in table.tables(19)]
    meshes = list(map(_decode_mesh, table.tables(20)))
    sharding_table = [None, *(_decode_sharding(t, meshes) for t in table.tables(21))]

    def avals_of(indices: int, older: int) -> tuple[ShapedArray, ...]:
        if avals:
            return tuple([avals[i] for i in table.array(indices, np.uint32)])
        return tuple([_decode_aval(t, scope) for t in table.tables(older)])

    def shardings_of(
        indices: int, older: int, count: int
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        positions = table.array(indices, np.uint32)
        if len(positions):
            return tuple([sharding_table[i] for i in positions]), (None,) * count
        pairs = [_decode_older_sharding(t) for t in table.tables(older)] or [(None, None)] * count
        return tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs])

    in_avals, out_avals = avals_of(22, 3), avals_of(23, 5)
    in_named, in_hlo = shardings_of(24, 7, len(in_avals))
    out_named, out_hlo = shardings_of(25, 8, len(out_avals))
    vjp = table.table(17)
    fields = {
        "fun_name": _require(table.text(1)),
        "in_tree": decode_tree(_require(table.table(2))),
        "in_avals": _types_with_shardings(in_avals, in_named),
        "out_tree": decode_tree(_require(table.table(4))),
        "out_avals": _types_with_shardings(out_avals, out_named),
        "_has_named_shardings": not any(s is not None for s in (*in_hlo, *out_hlo)),
        "_in_named_shardings": in_named,
        "_out_named_shardings": out_named,
        "in_shardings_hlo": in_hlo,
        "out_shardings_hlo": out_hlo,
        "nr_devices": table.number(18, np.uint32) or table.number(6, np.int16),
        "platforms": tuple(table.texts(9)),
        "ordered_effects": tuple([_effect(_require(t.text(0))) for t in table.tables(10)]),
        "unordered_effects": tuple([_effect(_require(t.text(0))) for t in table.tables(11)]),
        "disabled_safety_checks": tuple(map(_decode_check, table.tables(12))),
        "mlir_module_serialized": table.array(13, np.uint8).tobytes(),
        "calling_convention_version": table.number(14, np.uint16),
        "module_kept_var_idx": tuple(table.array(15, np.uint16).tolist()),
        "uses_global_constants": table.number(16, np.bool_),
    }
    return fields, None if vjp is None else _decode_exported(vjp)


def _types_with_shardings(
    avals: Sequence[ShapedArray], shardings: Sequence[Any]
) -> tuple[ShapedArray, ...]:
    return tuple([a if s is None else aval_at(a, s) for a, s in strict_zip(avals, shardings)])


def _require(part: Any) -> Any:
    if part is None:
        raise struct.error("a part that every exported program has is missing")
    return part


# Types ----------------------------------------------------------------------------------------------


def _encode_aval(aval: ShapedArray) -> dict[int, Any]:
    space = MemorySpace.Device if aval.memory_space is None else aval.memory_space
    return {
        0: np.int8(0),
        1: list(map(str, aval.shape)),
        2: np.int8(_number_of_dtype(aval.dtype)),
        3: np.int8(_MEMORY_SPACES.index(space)),
    }


def _number_of_dtype(dtype: Any) -> int:
    if isinstance(dtype, dtypes.ExtendedDType):
        for i, name in enumerate(_KEY_GENERATORS):
            if dtype == key_dtype(name):
                return len(_DTYPES) + i
    elif dtype in _DTYPES:
        return _DTYPES.index(dtype)
    raise SerializationError(
        f"arrays of dtype {dtypes.short_name(dtype)} can't be among the arguments or results of a serialized program.",
        do="Convert them to a dtype that the format has.",
    )


def _decode_aval(table: Table, scope: SymbolicScope) -> ShapedArray:
    number = table.number(2, np.int8)
    dtype = (
        _DTYPES[number]
        if number < len(_DTYPES)
        else key_dtype(_KEY_GENERATORS[number - len(_DTYPES)])
    )
    space = _MEMORY_SPACES[table.number(3, np.int8)]
    space = None if space is MemorySpace.Device else space
    return shaped_array(_sizes(table.texts(1), scope), dtype, memory_space=space)


def _sizes(texts: Sequence[str], scope: SymbolicScope) -> tuple[Size, ...]:
    try:
        return tuple([size for text in texts for size in parsed_sizes(text, scope)])
    except ArgumentValueError as error:
        raise SerializationError(f"a size in the file can't be read: {error.what}") from None


# Shardings ------------------------------------------------------------------------------------------


def _encode_mesh(mesh: AbstractMesh) -> dict[int, Any]:
    device = mesh.abstract_device
    return {
        0: np.array(mesh.axis_sizes, np.uint32),
        1: [_axis_name(name) for name in mesh.axis_names],
        2: np.array([_AXIS_TYPES.index(t) for t in mesh.axis_types], np.int8),
        3: None
        if device is None
        else {
            0: device.device_kind,
            1: None if device.num_cores is None else np.uint32(device.num_cores),
            2: device.platform,
        },
    }


def _axis_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise SerializationError(
        "mesh axes of serialized programs must have strings as names.", got=f"axis {name!r}"
    )


def _decode_mesh(table: Table) -> AbstractMesh:
    device = table.table(3)
    types = [_AXIS_TYPES[i] for i in table.array(2, np.int8)]
    return AbstractMesh(
        tuple(table.array(0, np.uint32).tolist()),
        table.texts(1),
        [AxisType.Auto if t is None else t for t in types],
        abstract_device=None
        if device is None
        else AbstractDevice(
            device.text(0) or "", device.number(1, np.uint32) or None, device.text(2) or ""
        ),
    )


def _encode_sharding(sharding: NamedSharding, meshes: _Uniques) -> dict[int, Any]:
    spec = sharding.spec
    return {
        0: _encode_mesh(sharding.mesh.abstract_mesh),
        1: {
            0: [{0: _axes_of_entry(entry)} for entry in spec.partitions],
            1: sorted(map(_axis_name, spec.reduced)),
            2: sorted(map(_axis_name, spec.unreduced)),
        },
        2: sharding.memory_kind,
        3: np.uint32(meshes.position(sharding.mesh.abstract_mesh)),
    }


def _axes_of_entry(entry: Any) -> list[str]:
    if entry is UNCONSTRAINED:
        raise SerializationError(
            "unconstrained dimensions can't be in the shardings of a serialized program.",
            do="State None, or the mesh axes that cut the dimension.",
        )
    return list(
        map(_axis_name, entry if isinstance(entry, tuple) else () if entry is None else (entry,))
    )


def _decode_sharding(table: Table, meshes: Sequence[AbstractMesh]) -> NamedSharding:
    mesh = meshes[table.number(3, np.uint32)] if meshes else _decode_mesh(_require(table.table(0)))
    spec = _require(table.table(1))
    entries = [entry.texts(0) for entry in spec.tables(0)]
    partitions = [axes[0] if len(axes) == 1 else tuple(axes) or None for axes in entries]
    marks = {"reduced": frozenset(spec.texts(1)), "unreduced": frozenset(spec.texts(2))}
    return NamedSharding(mesh, PartitionSpec(*partitions, **marks), table.text(2))


def _decode_older_sharding(table: Table) -> tuple[NamedSharding | None, HloSharding | None]:
    """(sharding by mesh axes, HLO sharding), of which at most one is stated."""
    by_axes = table.table(2)
    if by_axes is not None:
        return _decode_sharding(by_axes, ()), None
    data = table.array(1, np.uint8).tobytes()
    if not data:
        return None, None
    message = OpSharding()
    message.ParseFromString(data)
    return None, HloSharding.from_proto(message)


# Effects and checks -----------------------------------------------------------------------------------


def _effect_name(effect: Effect) -> str:
    """The name of an effect's class: a reader makes the effect anew, without arguments."""
    try:
        is_remade = type(effect)() == effect
    except TypeError:
        is_remade = False
    if not is_remade:
        raise SerializationError(
            f"the effect {effect!r} can't be serialized: its class must make an equal effect without arguments."
        )
    return str(type(effect))


def _effect(name: str) -> Effect:
    pending = [Effect]
    while pending:
        cls = pending.pop()
        if str(cls) == name:
            return cls()
        pending += cls.__subclasses__()
    raise SerializationError(
        f"the program has an effect of the class {name}, which is not defined here.",
        do="Import the module that defines it first.",
    )


def _encode_check(check: DisabledSafetyCheck) -> dict[int, Any]:
    target = check.is_custom_call()
    kind = _PLATFORM_CHECK if target is None else _CUSTOM_CALL_CHECK
    return {0: np.int8(kind), 1: target}


def _decode_check(table: Table) -> DisabledSafetyCheck:
    kind = table.number(0, np.int8)
    if kind == _CUSTOM_CALL_CHECK:
        return DisabledSafetyCheck.custom_call(_require(table.text(1)))
    if kind == _PLATFORM_CHECK:
        return DisabledSafetyCheck.platform()
    raise SerializationError(f"there is no kind {kind} of safety checks.")
