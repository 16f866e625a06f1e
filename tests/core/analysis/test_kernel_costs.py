"""Costs of kernels in compiled programs of devices: what their calls state, since nothing can be counted in native code."""

import numpy as np
import pytest

import pellucid as pl
from pellucid.analysis import HloModule
from pellucid.analysis.hlo_costs import costs_of
from pellucid.experimental.pallas import (
    ANY,
    BlockSpec,
    CostEstimate,
    mosaic_gpu,
    pallas_call,
    tpu,
    triton,
)

X = np.zeros((64, 128), np.float32)
ROWS = BlockSpec((8, 128), lambda i: (i, 0))


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def stated(function, platform):
    """What the call of the kernel says of its cost in the program for a platform."""
    text = pl.jit(function).trace(X).lower(lowering_platforms=(platform,)).as_text()
    return text.partition('kernel_cost = "')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("platform", "params"),
    [
        ("tpu", tpu.CompilerParams()),
        ("cuda", triton.CompilerParams()),
        ("cuda", mosaic_gpu.CompilerParams()),
    ],
)
def test_calls_state_what_the_programs_of_a_kernel_compute_and_move(platform, params):
    call = pallas_call(double, X, grid=8, in_specs=[ROWS], out_specs=ROWS, compiler_params=params)
    assert stated(call, platform) == f"{X.size} 0 {2 * X.nbytes}"


def test_calls_state_what_the_user_has_stated():
    cost = CostEstimate(flops=7, transcendentals=3, bytes_accessed=5)
    call = pallas_call(double, X, grid=8, in_specs=[ROWS], out_specs=ROWS, cost_estimate=cost)
    assert stated(call, "tpu") == "7 3 5"


def test_bytes_are_unknown_where_a_kernel_chooses_parts_itself():
    def pipeline(x_ref, o_ref):
        tpu.emit_pipeline(double, grid=(8,), in_specs=[ROWS], out_specs=[ROWS])(x_ref, o_ref)

    anywhere = BlockSpec(memory_space=ANY)
    call = pallas_call(pipeline, X, in_specs=[anywhere], out_specs=anywhere)
    assert stated(call, "tpu").split()[-1] == "?"


MODULE = """HloModule m, entry_computation_layout={(f32[64,128]{1,0})->f32[64,128]{1,0}}

ENTRY %main (x: f32[64,128]) -> f32[64,128] {
  %x = f32[64,128]{1,0} parameter(0)
  ROOT %call = f32[64,128]{1,0} custom-call(%x), custom_call_target="tpu_custom_call"ATTRIBUTES
}
"""


def test_costs_of_compiled_programs_have_those_of_their_kernels():
    cost = ', frontend_attributes={kernel_cost="8192 16 ?"}'
    found = costs_of(HloModule(MODULE.replace("ATTRIBUTES", cost))).table.total
    assert found == (8192.0, 16.0, None)
    without = costs_of(HloModule(MODULE.replace("ATTRIBUTES", ""))).table.total
    assert without.flops is None
