"""The table of planted faults: each can still be planted, and the tests that must notice it are there."""

import pytest

from tools import planted_faults

FAULTS = planted_faults.faults([])


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.kind for fault in FAULTS])
def test_the_text_that_a_fault_changes_is_there_once(fault: planted_faults.Fault) -> None:
    text = (planted_faults.ROOT / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.before) == 1
    assert fault.after != fault.before
    for test in fault.tests:
        assert (planted_faults.ROOT / test.partition("::")[0]).exists()


def test_no_two_faults_are_of_one_kind() -> None:
    assert len({fault.kind for fault in FAULTS}) == len(FAULTS)
