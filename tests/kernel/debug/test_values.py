"""Texts of values for front ends."""

from __future__ import annotations

import pytest

import pellucid.numpy as jnp
from pellucid_kernel.debug import values
from pellucid_kernel.debug.values import References, value_text


@pytest.fixture
def is_pending(monkeypatch):
    """Makes no array computed."""
    monkeypatch.setattr(values, "is_ready", lambda array: False)


def listed(references: References, value) -> str:
    return references.variable("x", value)["value"]


def test_a_list_of_variables_waits_for_no_array(is_pending) -> None:
    references = References(reads=False)
    assert listed(references, jnp.float32(2.5)) == "f32[], pending"
    assert listed(references, jnp.ones(3)) == "f32[3], pending"
    number = references.variable("x", {"a": jnp.float32(2.5)})["variablesReference"]
    assert [each["value"] for each in references.variables(number)] == ["f32[], pending"]
    assert listed(References(reads=True), jnp.float32(2.5)) == "2.5"  # at a stop


def test_values_that_are_computed_are_shown(monkeypatch) -> None:
    x = jnp.array([1.5, 2.5])
    assert value_text(x[0], waits=False) == value_text(x[0], waits=True) == "1.5"
    assert value_text(x, waits=False) == "f32[2]"
    references = References(reads=False)
    number = references.variable("x", x)["variablesReference"]
    monkeypatch.setattr(values, "is_ready", lambda array: False)
    texts = {each["name"]: each["value"] for each in references.variables(number)}
    assert (texts["x.max()"], texts["x[1]"]) == ("2.5", "2.5")  # of an array that is computed
