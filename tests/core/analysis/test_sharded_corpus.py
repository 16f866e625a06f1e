"""Layouts of values in records of all programs of the corpora."""

import numpy as np
import pytest
from corpus import partitioned_programs
from corpus.abstract import Abstract, Answer

import pellucid as pl
from pellucid import analysis
from pellucid._machine.xla import plugins
from pellucid.experimental.custom_partitioning import custom_partitioning
from pellucid.introspect.errors import PellucidError
from tests.introspect.sharded_cases import QUICK, cases, told

H100 = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
NEEDS_PLUGIN = pytest.mark.skipif(
    plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed"
)


def records_of(program):
    """Records of the jitted functions that a program calls."""
    return told(program, analysis.sharding)


def check(record):
    """Everything is known of every value and of every exchange."""
    assert -1 not in record.layouts.sharding
    assert -1 not in record.why.origin
    for each in (*record.planned, *record.collectives):
        assert each.axes
        assert each.equation >= 0
        assert each.site >= 0
        assert each.reason != "unknown"
        assert each.group_size * each.group_count == len(record.device_peak_bytes)


@pytest.mark.parametrize("program", cases())
def test_all_is_known_of_every_program(program):
    for record in records_of(program):
        check(record)


EAGER = {"eager"}
"""Programs that call no jitted function."""


@pytest.mark.parametrize(
    "device", [None, pytest.param(H100, marks=NEEDS_PLUGIN)], ids=["cpu", "gpu"]
)
@pytest.mark.parametrize("program", [case for case in cases() if case.id not in EAGER])
def test_all_is_known_over_abstract_devices(program, device):
    with pytest.raises((Answer, PellucidError)) as ended:
        program(Abstract(pl, device, analysis.sharding))
    if isinstance(ended.value, Answer):  # others are refused when they are traced
        record = ended.value.said
        assert record.basis == ("estimate" if device is None else "compiler")
        check(record)


@NEEDS_PLUGIN
@pytest.mark.parametrize("program", partitioned_programs.PROGRAMS)
def test_abstract_gpus_ask_how_functions_are_done_in_parts(program):
    with pytest.raises(Answer) as ended:
        program(Abstract(pl, H100, analysis.sharding))
    record = ended.value.said
    assert record.basis == "compiler"
    check(record)


@NEEDS_PLUGIN
def test_what_is_asked_of_the_user_over_abstract_gpus_fails_with_its_own_error():
    f = custom_partitioning(lambda x: 2 * x)
    f.def_partition(lambda mesh, operands, result: {}["absent"], sharding_rule="i -> i")
    mesh = pl.sharding.AbstractMesh((8,), ("x",), abstract_device=H100)
    x = pl.ShapeDtypeStruct((8,), np.float32, sharding=pl.NamedSharding(mesh, pl.P("x")))
    with pytest.raises(KeyError, match="absent"):
        analysis.sharding(f, x)


@pytest.mark.parametrize("program", [case for case in cases() if case.id in QUICK])
def test_every_chain_leads_to_its_origin(program):
    for record in records_of(program):
        why = record.why
        starts = [0]
        for count in why.counts:
            starts.append(starts[-1] + count)
        for first in range(len(why.axis)):
            at, steps = first, 0
            while why.value[at] >= 0:
                value, axis = why.value[at], why.axis[at]
                at = next(i for i in range(starts[value], starts[value + 1]) if why.axis[i] == axis)
                steps += 1
                assert steps <= len(why.axis)
            assert why.origin[at] >= 0
