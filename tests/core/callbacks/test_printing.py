"""`debug.print` prints the reference's text, at the same time."""

import pytest
from corpus import effect_programs

import pellucid as pl


@pytest.mark.parametrize("name", effect_programs.PRINTED)
def test_prints_the_same_in_the_same_order(oracle, name):
    assert effect_programs.printed(pl, name) == oracle.call(effect_programs.printed, name)
