"""A primitive states what it does, or can't be made."""

import pytest

from pellucid._machine.base.errors import ArgumentTypeError
from pellucid._machine.ir.primitive import Primitive
from pellucid._machine.ir.traits import ARITHMETIC, Traits
from pellucid._machine.primitives.families import FLOATING, Elementwise
from pellucid._machine.primitives.movement import Movement


def test_a_primitive_without_traits_cannot_be_made():
    with pytest.raises(ArgumentTypeError, match=r"(?s)`unheard` has no traits.*Traits\(kind"):
        Primitive("unheard")


def test_a_family_that_cannot_know_them_gives_none():
    with pytest.raises(ArgumentTypeError, match="`unheard` has no traits"):
        Movement("unheard")
    with pytest.raises(TypeError, match="traits"):
        Elementwise("unheard", accepts=FLOATING, hlo="abs")


def test_kind_and_operations_have_no_default():
    with pytest.raises(TypeError, match="flops"):
        Traits(kind="movement")
    with pytest.raises(TypeError, match="kind"):
        Traits(flops=0.0)


def test_passive_operands_are_those_that_linear_positions_leave():
    traits = ARITHMETIC.replace(linear=(0, 2), passive="others")
    assert traits.passive_operands(4) == (1, 3)
    assert ARITHMETIC.replace(passive=(1,)).passive_operands(4) == (1,)


def test_no_primitive_takes_a_function_in_front_of_its_operands():
    from pellucid._machine.ir.primitive import registry

    assert not any(primitive.call_primitive for primitive in registry.values())
