"""Programs with references give the reference's values; their text is the reference's."""

import pytest
from corpus import effect_programs
from corpus.effect_programs import TEXTS, VALUES

import pellucid as pl


@pytest.mark.parametrize("name", VALUES)
def test_values_agree(oracle, name):
    program, args = VALUES[name]
    outcome = oracle.check(program, *args, library=pl, tolerance=1e-5, weak_types=False)
    outcome.require_result()


@pytest.mark.parametrize("name", TEXTS)
def test_text_agrees(oracle, name):
    assert effect_programs.text_of(pl, name) == oracle.call(effect_programs.text_of, name)
