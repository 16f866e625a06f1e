"""Generators with a state: the reference's draws."""

from corpus.library_programs import stateful_draws

import pellucid as pl


def test_draws_are_those_of_the_reference(oracle) -> None:
    oracle.check(stateful_draws, library=pl)
