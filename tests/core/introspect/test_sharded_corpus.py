"""What is known of how programs lay out their values, for all programs of the corpora."""

import pytest
from corpus import explicit_programs, manual_programs, sharded_programs
from corpus.recording import Recording

import pellucid as pl
from pellucid import introspect
from pellucid.introspect.errors import PellucidError

QUICK = {
    "data_parallel", "fully_sharded", "embedding", "scanned_layers", "sorted_and_summed",
    "ring_attention", "axes_left_to_the_compiler",
}  # fmt: skip


def cases():
    found = {f.__name__: lambda jax, f=f, a=a: f(jax, *a) for f, a in sharded_programs.PROGRAMS}
    found |= {f.__name__: f for f in explicit_programs.PROGRAMS}
    found |= {
        name: lambda jax, name=name: manual_programs.value(jax, name)
        for name in manual_programs.PROGRAMS
        if name not in manual_programs.NESTED and name not in found
    }
    return [
        pytest.param(program, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, program in found.items()
    ]


def records_of(program):
    """Records of the jitted functions that a program calls. What refuses a call must refuse to tell of it, too."""
    found, refused, raised = [], [], []

    def note(jitted, args):
        try:
            found.append(introspect.sharding(jitted, *args))
        except PellucidError as error:
            refused.append(type(error))

    try:
        program(Recording(pl, note))
    except PellucidError as error:
        raised.append(type(error))
    assert refused == raised
    return found


@pytest.mark.parametrize("program", cases())
def test_all_is_known_of_every_program(program):
    for record in records_of(program):
        assert -1 not in record.layouts.sharding
        assert -1 not in record.why.origin
        for each in (*record.planned, *record.collectives):
            assert each.axes
            assert each.equation >= 0
            assert each.reason != "unknown"
            assert each.group_size * each.group_count == len(record.device_peak_bytes)


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
