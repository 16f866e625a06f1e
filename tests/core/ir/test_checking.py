"""The type checker finds broken programs."""

import numpy as np
import pytest

from pellucid._machine.base.errors import JaxprTypeError
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.checking import check_jaxpr
from pellucid._machine.ir.jaxpr import Var
from pellucid._machine.primitives.transcendental import cos, sin
from pellucid._machine.tracing.staging import stage

VECTOR = shaped_array((3,), np.dtype(np.float32))


def program():
    jaxpr, _ = stage(lambda x: [cos(sin(x))], [VECTOR])
    return jaxpr


def test_a_traced_program_is_well_typed() -> None:
    check_jaxpr(program())


def test_a_variable_that_is_used_before_it_is_bound() -> None:
    jaxpr = program()
    with pytest.raises(JaxprTypeError, match="before it is bound"):
        check_jaxpr(jaxpr.replace(equations=tuple(reversed(jaxpr.equations))))


def test_a_variable_that_is_bound_twice() -> None:
    jaxpr = program()
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(jaxpr.replace(equations=(*jaxpr.equations, jaxpr.equations[0])))


def test_a_result_of_the_wrong_type() -> None:
    jaxpr = program()
    first, second = jaxpr.equations
    wrong = Var(shaped_array((4,), np.dtype(np.float32)))
    with pytest.raises(JaxprTypeError, match="`sin` gives other types"):
        check_jaxpr(jaxpr.replace(equations=(first.replace(results=[wrong]), second)))
