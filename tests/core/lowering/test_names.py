"""Operations are named as in the reference: by scope, transformation, loop, branch and call."""

import pytest
from corpus import operation_names

import pellucid as pl

ONE_MARK = ("jvp(jvp())", "jvp()")
"""The reference runs rules of users and checkpoints as jvp within jvp; here each derivative is named once."""
DIFFERENCES = {"grad_of_remat": ONE_MARK, "custom_jvp": ONE_MARK}
PLUMBING = {"jit(<lambda>)/add", "jit(<lambda>)/split", "jit(<lambda>)/reshape"}
"""Computations of unit vectors by one or the other."""


@pytest.mark.parametrize("program", operation_names.PROGRAMS)
def test_operations_have_the_names_of_the_reference(oracle, program):
    [theirs] = oracle.call_each(operation_names.names, [program])
    if program in DIFFERENCES:
        theirs = [name.replace(*DIFFERENCES[program]) for name in theirs]
    [ours] = operation_names.names(pl, [program])
    assert {*ours} - PLUMBING == {*theirs} - PLUMBING
