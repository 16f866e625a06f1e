"""What is known of TPUs, by generation: cores, units, memories and their speed, from the maker's tables.

The figures are those of one TensorCore, half of what a chip of two has.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import ArgumentValueError, DeviceError, UnsupportedError, dtypes
from pellucid._machine.runtime.platforms import default_device
from pellucid._machine.sharding import get_abstract_mesh

_MIB, _KIB, _GB, _TERA = 1 << 20, 1 << 10, 10**9, 10**12
_SPARSE_CORES_SINCE_V5P = 5
_TILED_BY_16_SINCE = 7


class CoreType(enum.Enum):
    """Kinds of cores of a TPU: its TensorCores, and those of its SparseCores, for which nothing is lowered."""

    TC = "tc"
    SC_SCALAR_SUBCORE = "sc_scalar_subcore"
    SC_VECTOR_SUBCORE = "sc_vector_subcore"


class Tiling(enum.Enum):
    """How arrays lie in memory: in tiles of rows and lanes, or of lanes for a SparseCore.

    >>> Tiling.COMPACT.shape
    (8, 128)
    """

    COMPACT = 1
    SPARSE_CORE = 2

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tile of 32-bit elements."""
        return (8, 128) if self is Tiling.COMPACT else (8,)


class ChipVersion(enum.Enum):
    """Versions of TPUs.

    >>> ChipVersion.TPU_V5E.num_physical_tensor_cores_per_chip, str(ChipVersion.TPU_V5E)
    (1, 'v5e')
    """

    TPU_V2 = "v2"
    TPU_V3 = "v3"
    TPU_V4I = "v4i"
    TPU_V4 = "v4"
    TPU_V5E = "v5e"
    TPU_V5P = "v5p"
    TPU_V6E = "v6e"
    TPU_7 = "7"
    TPU_7X = "7x"
    TPU_8I = "8i"

    def __str__(self) -> str:
        return self.value

    @property
    def is_lite(self) -> bool:
        """Whether its chips have one TensorCore."""
        return self in (ChipVersion.TPU_V4I, ChipVersion.TPU_V5E, ChipVersion.TPU_V6E)

    @property
    def num_physical_tensor_cores_per_chip(self) -> int:
        """The number of TensorCores of a chip."""
        return 1 if self.is_lite else 2

    @property
    def supports_megacore(self) -> bool:
        """Whether two TensorCores of a chip can be one device."""
        return self in (ChipVersion.TPU_V4, ChipVersion.TPU_V5P)


@dataclass(frozen=True, kw_only=True)
class SparseCoreInfo:
    """The SparseCores of a TPU: their number, subcores and lanes of each, and memory in bytes."""

    num_cores: int
    num_subcores: int
    num_lanes: int
    vmem_capacity_bytes: int
    dma_granule_size_bytes: int


_WIDE = ("float32", "bfloat16")
_FLOATS_SINCE_V5 = (*_WIDE, "float8_e5m2", "float8_e4m3b11fnuz")
_FLOATS_OF_8_BITS = ("float8_e4m3fn", "float8_e5m2")


def _products(generation: int) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Dtypes of left and right operands that the matrix units of a generation multiply."""
    if generation < 4:
        return [(("float32",), ("float32",))]
    if generation == 4:
        return [(_WIDE, (*_WIDE, "int8"))]
    if generation < 7:
        integers = [(f"int{n}", f"uint{n}") for n in (8, 4)]
        return [(kinds, kinds) for kinds in (_FLOATS_SINCE_V5, *integers)]
    return [(_WIDE, (*_WIDE, *_FLOATS_OF_8_BITS)), (_FLOATS_OF_8_BITS, _FLOATS_OF_8_BITS)]


@dataclass(frozen=True, kw_only=True)
class TpuInfo:
    """What is known of a TPU, for one of its TensorCores: sizes in bytes, speeds in bytes and operations a second.

    `num_cores` is the number of TensorCores that are one device. A speed of 0: the matrix units have no such operations.

    >>> info = get_tpu_info_for_chip(ChipVersion.TPU_V6E, 1)
    >>> info.vmem_capacity_bytes >> 20, info.mxu_column_size, info.num_lanes
    (128, 256, 128)
    """

    chip_version: ChipVersion
    generation: int
    num_cores: int
    num_lanes: int
    num_sublanes: int
    mxu_column_size: int
    num_mxus: int
    num_accumulators: int
    vmem_capacity_bytes: int
    cmem_capacity_bytes: int
    smem_capacity_bytes: int
    hbm_capacity_bytes: int
    mem_bw_bytes_per_second: int
    bf16_ops_per_second: int
    int8_ops_per_second: int
    fp8_ops_per_second: int
    int4_ops_per_second: int
    sparse_core: SparseCoreInfo | None = None

    @property
    def is_lite(self) -> bool:
        """Whether a chip has one TensorCore."""
        return self.chip_version.is_lite

    @property
    def is_megacore(self) -> bool:
        """Whether a device is two TensorCores."""
        return self.num_cores > 1

    @property
    def is_split_chip(self) -> bool:
        """Whether a device is one of two TensorCores of a chip."""
        return self.num_cores == 1 and self.chip_version.num_physical_tensor_cores_per_chip == 2

    def is_matmul_supported(self, lhs_dtype: Any, rhs_dtype: Any) -> bool:
        """Whether the matrix units multiply operands of these dtypes.

        >>> get_tpu_info_for_chip(ChipVersion.TPU_V5E, 1).is_matmul_supported("int8", "int8")
        True
        """
        left, right = (dtypes.as_dtype(x).name for x in (lhs_dtype, rhs_dtype))
        return any(left in a and right in b for a, b in _products(self.generation))

    def get_sublane_tiling(self, dtype: Any) -> int:
        """The number of rows of a tile in which elements of `dtype` lie in memory.

        Raises: UnsupportedError for chips of which that isn't known.

        >>> get_tpu_info_for_chip(ChipVersion.TPU_V5E, 1).get_sublane_tiling("int8")
        32
        """
        if self.generation > _TILED_BY_16_SINCE:
            raise UnsupportedError(f"tiles of TPU {self.chip_version} aren't known.")
        bits = dtypes.itemsize_bits(dtypes.as_dtype(dtype))
        # Two rows of 16-bit elements lie in one row of 32 bits, which earlier chips take in tiles of 8 all the same.
        if bits == 16 and self.generation < _TILED_BY_16_SINCE:
            return self.num_sublanes
        return self.num_sublanes * max(32 // bits, 1)


def _sparse_cores(cores: int, subcores: int, lanes: int, vmem: int, granule: int) -> SparseCoreInfo:
    return SparseCoreInfo(
        num_cores=cores, num_subcores=subcores, num_lanes=lanes, vmem_capacity_bytes=vmem, dma_granule_size_bytes=granule
    )  # fmt: skip


# Generation; columns of a matrix unit, their number, accumulators; VMEM, CMEM, SMEM, HBM in bytes; bytes of HBM, operations of bfloat16,
# int8, 8-bit floats and int4 a second; SparseCores.
_TABLE: dict[ChipVersion, tuple[Any, ...]] = {
    ChipVersion.TPU_V2: (2, 128, 1, 0, 16 * _MIB, 0, 16 * _KIB, 8 * _GB, 358 * _GB, 23 * _TERA, 0, 0, 0, None),
    ChipVersion.TPU_V3: (3, 128, 2, 0, 16 * _MIB, 0, 16 * _KIB, 17_200_000_000, 412_500_000_000, 70 * _TERA, 0, 0, 0, None),
    ChipVersion.TPU_V4I: (4, 128, 4, 0, 16 * _MIB, 134_000_000, _MIB, 8_590_000_000, 614 * _GB, 137 * _TERA, 0, 0, 0, None),
    ChipVersion.TPU_V4: (4, 128, 4, 0, 16 * _MIB, 67_000_000, _MIB, 17_200_000_000, 615 * _GB, 137_500_000_000_000, 0, 0, 0, None),
    ChipVersion.TPU_V5E: (5, 128, 4, 0, 128 * _MIB, 0, _MIB, 17_200_000_000, 820 * _GB, 197 * _TERA, 394 * _TERA, 0, 788 * _TERA, None),
    ChipVersion.TPU_V5P: (
        5, 128, 4, 0, 64 * _MIB, 0, _MIB, 51_500_000_000, 1230 * _GB, 229_500_000_000_000, 459 * _TERA, 0, 920 * _TERA,
        _sparse_cores(4, 16, 8, 512 * _KIB, 32),
    ),
    ChipVersion.TPU_V6E: (
        6, 256, 2, 0, 128 * _MIB, 0, _MIB, 34_400_000_000, 1640 * _GB, 920 * _TERA, 1840 * _TERA, 920 * _TERA, 3680 * _TERA,
        _sparse_cores(2, 16, 8, 256 * _KIB, 32),
    ),
    **{
        version: (
            7, 256, 2, 128, 64 * _MIB, 0, _MIB, 103 * _GB, 3700 * _GB, 1155 * _TERA, 0, 2300 * _TERA, 0,
            _sparse_cores(2, 16, 16, 512 * _KIB, 32),
        )
        for version in (ChipVersion.TPU_7, ChipVersion.TPU_7X)
    },
    ChipVersion.TPU_8I: (
        8, 256, 2, 256, 192 * _MIB, 0, _MIB, 154_500_000_000, 4300 * _GB, 550_500_000_000_000, 0, 4404 * _TERA, 0,
        _sparse_cores(1, 4, 16, 512 * _KIB, 64),
    ),
}  # fmt: skip

_KINDS = {
    "TPU v2": ChipVersion.TPU_V2,
    "TPU v3": ChipVersion.TPU_V3,
    "TPU v4 lite": ChipVersion.TPU_V4I,
    "TPU v4": ChipVersion.TPU_V4,
    "TPU v5 lite": ChipVersion.TPU_V5E,
    "TPU v5e": ChipVersion.TPU_V5E,
    "TPU v5": ChipVersion.TPU_V5P,
    "TPU v5p": ChipVersion.TPU_V5P,
    "TPU v6 lite": ChipVersion.TPU_V6E,
    "TPU v6e": ChipVersion.TPU_V6E,
    "TPU7": ChipVersion.TPU_7,
    "TPU7x": ChipVersion.TPU_7X,
    "TPU8i": ChipVersion.TPU_8I,
}
"""Versions by the kind that devices state."""


def get_tpu_info_for_chip(
    chip_version: ChipVersion, num_tensor_cores_per_logical_device: int
) -> TpuInfo:
    """What is known of a version of TPUs, of which so many TensorCores are one device.

    Raises: ArgumentValueError for more TensorCores than one device can be.

    >>> get_tpu_info_for_chip(ChipVersion.TPU_V4, 2).is_megacore
    True
    """
    most = 2 if chip_version.supports_megacore else 1
    if not 1 <= num_tensor_cores_per_logical_device <= most:
        raise ArgumentValueError(
            f"a device of TPU {chip_version} can't be so many TensorCores.",
            got=f"num_tensor_cores_per_logical_device={num_tensor_cores_per_logical_device}, at most {most}",
        )
    generation, *figures = _TABLE[chip_version]
    names = [*TpuInfo.__dataclass_fields__][5:]
    return TpuInfo(
        chip_version=chip_version,
        generation=generation,
        num_cores=num_tensor_cores_per_logical_device,
        num_lanes=128,
        num_sublanes=8,
        **dict(zip(names, figures, strict=True)),
    )


def _device() -> tuple[str, int | None]:
    """The kind and the number of cores of the devices of the mesh that is set, else of the default device."""
    device = get_abstract_mesh().abstract_device or default_device()
    return device.device_kind, getattr(device, "num_cores", None)


def is_tpu_device() -> bool:
    """Whether programs run on a TPU: the kind of devices of the mesh that is set, else that of the default device.

    >>> is_tpu_device()
    False
    """
    return _device()[0] in _KINDS


def get_tpu_info() -> TpuInfo:
    """What is known of the TPU on which programs run: that of the mesh that is set, whose devices need not be there, else the default device.

    Raises: DeviceError where that is no TPU.

    >>> chip = pl.sharding.AbstractDevice("TPU v5 lite", 1, "tpu")
    >>> with pl.sharding.use_abstract_mesh(pl.sharding.AbstractMesh((1,), ("x",), abstract_device=chip)):
    ...     get_tpu_info().vmem_capacity_bytes >> 20
    128
    """
    kind, cores = _device()
    if kind not in _KINDS:
        raise DeviceError(
            "get_tpu_info needs a TPU.",
            got=f"devices of the kind {kind!r}",
            do="`get_tpu_info_for_chip(ChipVersion.TPU_V5E, 1)` needs none.",
        )
    return get_tpu_info_for_chip(_KINDS[kind], cores or 1)
