"""Programs that communicate by hand give what their plain forms give, and what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus.manual_programs import (
    FORMS,
    NESTED,
    PROGRAMS,
    UNKNOWN,
    batch_of_gradients,
    gradient,
    loop,
    value_at_once,
)

import pellucid as pl

QUICK = (value_at_once, gradient, batch_of_gradients)
CASES = [
    pytest.param(
        form,
        name,
        id=f"{form.__name__}-{name}",
        marks=() if form in QUICK else (pytest.mark.rotates,),
    )
    for form in FORMS
    for name in PROGRAMS
    if name not in NESTED or form is value_at_once
]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_equals_the_plain_form(form: Any, name: str) -> None:
    manual, plain = form(pl, name), form(pl, name, manual=False)
    assert pl.tree.structure(manual) == pl.tree.structure(plain)
    for ours, expected in zip(pl.tree.leaves(manual), pl.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-5)


RACES = {
    (form.__name__, "different_ways")
    for form in FORMS
    if "gradient" in form.__name__ or form is loop
}
"""Derivatives for which the reference sums within a branch that not all devices take; what it gives differs."""


@pytest.mark.parametrize(("form", "name"), CASES)
def test_agrees_with_the_reference(oracle_8_devices: Any, form: Any, name: str) -> None:
    if name in UNKNOWN:
        pytest.skip("the reference has no such collective on the CPU")
    if (form.__name__, name) in RACES:
        pytest.skip("the reference has a race here")
    oracle_8_devices.check(form, name, library=pl, tolerance=2e-4)
