"""What is known of how programs lay out their values, for all programs of the corpora."""

import pytest

from pellucid import introspect
from tests.introspect.sharded_cases import QUICK, cases, told


def records_of(program):
    """Records of the jitted functions that a program calls."""
    return told(program, introspect.sharding)


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
