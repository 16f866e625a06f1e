"""What `ptxas` reports of a GPU program, and how many programs fit on a multiprocessor."""

import pytest

from pellucid._machine.xla import ptxas
from pellucid._machine.xla.plugins import Assembly, PluginMissingError

REPORT = """
ptxas info    : Compiling entry function 'kernel' for 'sm_90a'
ptxas info    : Function properties for kernel
    {} bytes stack frame, {} bytes spill stores, 24 bytes spill loads
ptxas info    : Used {} registers, used 1 barriers
"""

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 pointer)
{
    .reg .b64 %rd<3>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [pointer];
    ld.global.f32 %f1, [%rd1];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd1], %f2;
    ret;
}
"""


@pytest.mark.parametrize(
    ("architecture", "registers", "shared", "warps", "at_once", "occupancy"),
    [
        ("sm_90a", 32, 0, 4, 16, 1.0),  # as many warps as there are
        ("sm_90a", 24, 0, 1, 32, 0.5),  # as many blocks
        ("sm_90a", 128, 0, 4, 4, 0.25),  # registers: 16 warps of 4,096
        ("sm_90a", 40, 0, 4, 12, 0.75),  # 1,280 for each warp: 12 in each quarter
        ("sm_90a", 32, 100 << 10, 4, 2, 0.125),  # shared memory, with 1 KiB for the system
        ("sm_80", 32, 82 << 10, 8, 1, 0.125),
        ("sm_75", 32, 32 << 10, 4, 2, 0.25),  # nothing for the system
        ("sm_120", 32, 0, 4, 12, 1.0),
        ("sm_90", 255, 0, 32, 0, 0.0),  # doesn't fit
        ("sm_37", 32, 0, 4, None, None),  # not in the table
    ],
)
def test_programs_at_once(architecture, registers, shared, warps, at_once, occupancy):
    found = ptxas.resources_of(REPORT.format(8, 16, registers), architecture, shared, warps)
    assert (found.registers, found.spilled_bytes, found.stack_bytes) == (registers, 16, 8)
    assert (found.programs_at_once, found.occupancy) == (at_once, occupancy)


@pytest.mark.skipif(ptxas.ptxas() is None, reason="ptxas isn't installed: nvidia-cuda-nvcc")
def test_the_assembler_is_asked():
    found = ptxas.resources(Assembly(PTX, 0), 4)
    assert found.registers > 0
    assert found.spilled_bytes == 0
    with pytest.raises(RuntimeError, match="ptxas refuses the program"):
        ptxas.resources(Assembly(PTX.replace("add.f32", "subtract"), 0), 4)


def test_without_an_assembler(monkeypatch):
    monkeypatch.setattr(ptxas, "ptxas", lambda: None)
    with pytest.raises(PluginMissingError, match="pip install nvidia-cuda-nvcc"):
        ptxas.resources(Assembly(PTX, 0), 4)
