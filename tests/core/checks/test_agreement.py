"""Checked programs find what the reference finds."""

import pytest
from corpus import checked_programs

import pellucid as pl
from pellucid.experimental import checkify


@pytest.mark.parametrize("name", checked_programs.PROGRAMS)
def test_finds_the_same(oracle, name):
    ours = checked_programs.messages_of(pl, checkify, name)
    assert ours == oracle.call(checked_programs.reference_messages, name)
