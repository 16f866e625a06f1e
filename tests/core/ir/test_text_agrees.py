"""The text of programs is the reference's; see decisions/0006."""

import pytest
from corpus import jaxpr_text
from corpus.jaxpr_text import DIFFERENCES, PROGRAMS

import pellucid as pl


def ours(name):
    function, args = PROGRAMS[name]
    return str(pl.make_jaxpr(lambda *inputs: function(pl, *inputs))(*args))


def test_there_are_many_programs():
    assert len(PROGRAMS) >= 100
    assert set(DIFFERENCES) <= set(PROGRAMS)


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - set(DIFFERENCES)))
def test_text_agrees(oracle, name):
    assert ours(name) == oracle.call(jaxpr_text.text_of, name)


@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_what_is_listed_as_different_is_different(oracle, name):
    assert ours(name) != oracle.call(jaxpr_text.text_of, name)
