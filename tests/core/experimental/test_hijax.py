"""Values that are no arrays: primitives of libraries run outside of traces, and are refused under one."""

import pytest

import pellucid as pl
from pellucid.base.errors import ArgumentTypeError, UnsupportedError
from pellucid.experimental import hijax
from pellucid.extend.core import Effect


class Pair:
    """A value of a library."""


class MakePair(hijax.HiPrimitive):
    def impl(self, x, *, label):
        return x, label


def test_a_primitive_runs_outside_of_traces_only() -> None:
    make_pair_p = MakePair("make_pair")
    assert make_pair_p.bind(1.0, label="a") == (1.0, "a")
    with pytest.raises(UnsupportedError, match="`make_pair` can't be part of a program"):
        pl.jit(lambda x: make_pair_p.bind(x, label="a")[0])(1.0)


def test_states_of_values_are_read_outside_of_programs() -> None:
    class Cell(Pair):
        def cur_qdd(self):
            return "empty"

    assert pl.experimental.cur_qdd(Cell()) == "empty"
    with pytest.raises(UnsupportedError, match=r"takes a value of a mutable type.*\n.*Pair"):
        hijax.cur_qdd(Pair())
    with pytest.raises(UnsupportedError, match=r"mutable type.*\n.*f32\[\]"):
        pl.jit(hijax.cur_qdd)(1.0)


def test_values_of_registered_types_are_no_operands() -> None:
    hijax.register_hitype(Pair, lambda pair: hijax.MutableHiType())
    with pytest.raises(ArgumentTypeError, match="Pair"):
        pl.jit(lambda pair: 1.0)(Pair())


def test_allowed_effects() -> None:
    class Noted(Effect):
        pass

    assert not hijax.control_flow_allowed_effects.contains(Noted())
    hijax.control_flow_allowed_effects.add_type(Noted)
    assert hijax.control_flow_allowed_effects.contains(Noted())


@pytest.mark.parametrize("method", [hijax.HiType().lo_ty, hijax.HiPspec().to_lo])
def test_what_subclasses_define(method) -> None:
    with pytest.raises(NotImplementedError):
        method()
