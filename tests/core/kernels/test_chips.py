"""What is known of TPUs is what the reference knows, without a TPU."""

import pytest
from corpus import tpu_chips as corpus

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, DeviceError, UnsupportedError
from pellucid.experimental.pallas import tpu
from pellucid.kernels.targets import TPU_CHIPS


def test_figures_are_those_of_the_reference(oracle):
    assert corpus.figures(pl) == oracle.call(corpus.figures)


def mesh_of(kind, cores=1):
    chip = pl.sharding.AbstractDevice(kind, cores, "tpu")
    return pl.sharding.use_abstract_mesh(
        pl.sharding.AbstractMesh((1,), ("x",), abstract_device=chip)
    )


@pytest.mark.parametrize("chip", TPU_CHIPS.values(), ids=lambda chip: chip.name)
def test_the_chip_of_a_mesh(chip):
    """Its devices need not be there; memories are those that kernels are checked against."""
    with mesh_of(chip.device_kind):
        assert tpu.is_tpu_device()
        info = tpu.get_tpu_info()
        assert info.vmem_capacity_bytes == chip.vmem
        assert info.smem_capacity_bytes == chip.smem
    with mesh_of("TPU v4", 2):
        assert tpu.get_tpu_info().is_megacore


def test_what_is_not_known():
    assert not tpu.is_tpu_device()
    with pytest.raises(DeviceError, match="needs a TPU"):
        tpu.get_tpu_info()
    with mesh_of("TPU v99"), pytest.raises(ValueError, match="kind 'TPU v99'"):
        tpu.get_tpu_info()
    with pytest.raises(ArgumentValueError, match="at most 1"):
        tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_V5E, 2)
    with pytest.raises(ArgumentValueError, match="at most 2"):
        tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_V4, 3)
    with pytest.raises(UnsupportedError, match="tiles of TPU 8i"):
        tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_8I, 1).get_sublane_tiling("int8")


def test_shapes_of_tiles():
    assert tpu.Tiling.SPARSE_CORE.shape == (8,)
    assert [kind.name for kind in tpu.CoreType] == ["TC", "SC_SCALAR_SUBCORE", "SC_VECTOR_SUBCORE"]
