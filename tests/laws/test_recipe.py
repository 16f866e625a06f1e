"""The recipe of CONTRIBUTING for an elementwise primitive: a row and its function, a sample, a NumPy name.

Everything else follows from them: laws, the NumPy name under jit and vmap, costs, jet and checks for NaN.
"""

from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.ir.primitive import registry
from pellucid._machine.ir.traits import TRANSCENDENTAL
from pellucid._machine.primitives.arithmetic import mul
from pellucid._machine.primitives.families import FLOATING, Elementwise
from pellucid._machine.primitives.transcendental import tanh
from pellucid._machine.tracing.trace import bind1
from pellucid.analysis.costs import equation_cost
from pellucid.experimental import checkify, jet
from pellucid.numpy.elementwise import _unary
from pellucid.numpy.promotion import promote_dtypes_inexact
from tests.laws import test_adjoint, test_batching, test_derivative, test_programs, test_sharding
from tests.laws.sample import lax, rows


# The row and its function, as in a family's file of `primitives`.
def log_cosh(x: Any) -> Any:
    """Logarithm of the hyperbolic cosine of `x`, element by element."""
    return bind1(log_cosh_p, x)


def lower_log_cosh(ctx: Any, operands: Any, params: Any) -> Any:
    [aval] = ctx.avals_out
    return ctx.op1("stablehlo.log", aval, [ctx.op1("chlo.cosh", aval, operands)])


log_cosh_p: Elementwise = Elementwise(
    "log_cosh", traits=TRANSCENDENTAL.replace(makes_nan=True), accepts=FLOATING, hlo=lower_log_cosh,
    tangents=(lambda t, y, x: mul(t, tanh(x)),),
)  # fmt: skip

del registry["log_cosh"]  # tests that go through all primitives mean pellucid's

# The NumPy name, as in `numpy/elementwise.py`.
numpy_log_cosh = _unary("log_cosh", log_cosh, promote_dtypes_inexact, "Logarithm of `cosh(x)`.")

# The sample, as in a file of `tests/laws/samples`; `lax()` has the functions that samples call.
lax().log_cosh = log_cosh
SAMPLES = rows("lax.log_cosh(x)", ("float32", "float64"), lambda x: np.log(np.cosh(x)), agrees="no")
every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


@every_sample
def test_values_types_and_lowering(sample, compiled) -> None:
    test_programs.test_program_lowers_everywhere_and_predicts_its_results(sample, compiled)
    test_programs.test_compiled_equals_eager(sample, compiled)


@every_sample
def test_derivative_law(sample, together) -> None:
    test_derivative.test_forward_derivative_is_the_central_difference(sample, together)


@every_sample
def test_adjoint_law(sample, together) -> None:
    test_adjoint.test_reverse_is_the_adjoint_of_forward(sample, together)


@every_sample
def test_batching_law(sample, together) -> None:
    test_batching.test_batching_is_a_loop(sample, together)


@every_sample
def test_sharding_law(sample, compiled, together) -> None:
    test_sharding.test_sharded_equals_single_device(sample, compiled, together)


def test_numpy_name_promotes_and_is_transformed() -> None:
    x = np.arange(6).reshape(2, 3)
    expected = np.log(np.cosh(x)).astype(np.float32)
    for function in (numpy_log_cosh, pl.jit(numpy_log_cosh), pl.vmap(numpy_log_cosh)):
        result = function(x)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_tools_know_it() -> None:
    [equation] = pl.make_jaxpr(log_cosh)(np.ones((4, 8), np.float32)).jaxpr.eqns
    assert "log_cosh" in str(equation)
    assert equation_cost(equation.equation).transcendentals == 32


def test_taylor_series_follow_from_its_derivative() -> None:
    primal, series = jet.jet(numpy_log_cosh, (0.5,), ((1.0, 0.0, 0.0),))
    slope = np.tanh(0.5)
    np.testing.assert_allclose(primal, np.log(np.cosh(0.5)), rtol=1e-6)
    np.testing.assert_allclose(series, [slope, 1 - slope**2, -2 * slope * (1 - slope**2)], 1e-5)


def test_checks_report_the_nan_that_it_makes() -> None:
    error, _ = checkify.checkify(numpy_log_cosh, errors=checkify.nan_checks)(np.float32("nan"))
    assert "log_cosh" in (error.get() or "")
