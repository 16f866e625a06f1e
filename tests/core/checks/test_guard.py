"""Guards: conditions that programs raise themselves where they fail."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.checks.errors import CheckSite, FailedCheckError, OOBError
from pellucid._machine.checks.guard import guard
from pellucid._machine.higher_order.bodies import UnraisedFailureWarning
from pellucid.experimental import checkify

F32 = np.float32


def positive(x, category=FailedCheckError):
    """Twice a positive number."""
    site = CheckSite(category, lambda x: f"{float(x)} isn't positive", [pl.typeof(x)], None)
    guard(jnp.where(x > 0, 0, 1).astype(np.int32), [x], [site])
    return x * 2


def in_scan(x):
    return lax.scan(lambda c, x: (c, positive(x)), 0, jnp.stack([x * 0 + 1, x]))[1][1]


USES = {
    "eager": positive,
    "jit": pl.jit(positive),
    "grad": lambda x: pl.grad(positive)(x) * x,
    "checkpoint": lambda x: pl.grad(pl.checkpoint(positive))(x) * x,
    "vmap": lambda x: pl.jit(pl.vmap(positive))(jnp.stack([x * 0 + 1, x]))[1],
    "scan": in_scan,
    "cond": pl.jit(lambda x: lax.cond(x < 10, positive, lambda x: x, x)),
}


@pytest.mark.parametrize("use", USES)
def test_a_failure_raises_when_the_program_runs(use):
    np.testing.assert_array_equal(USES[use](F32(3)), 6)
    with pytest.raises(pl.errors.CheckError, match=r"-3.0 isn't positive"):
        USES[use](F32(-3))


def test_where_elements_of_a_batch_go_different_ways_a_warning_says_that_nothing_is_raised():
    branch = lambda x: lax.cond(x > 0, pl.jit(positive), lambda x: x, x)
    with pytest.warns(UnraisedFailureWarning, match="`cond` whose elements go different ways"):
        np.testing.assert_array_equal(pl.vmap(branch)(np.array([1, -3], F32)), [2, -3])
    loop = lambda x: lax.while_loop(lambda x: x > 0, lambda x: positive(x) - x - 1, x)
    with pytest.warns(UnraisedFailureWarning, match="`while_loop` whose elements"):
        np.testing.assert_array_equal(pl.vmap(loop)(np.array([1, 3], F32)), [0, 0])


def test_checkify_makes_values_of_those_that_it_is_asked_for():
    error, y = pl.jit(checkify.checkify(positive))(F32(-3))
    assert "-3.0 isn't positive" in error.get()
    assert y == -6
    others = pl.jit(checkify.checkify(lambda x: positive(x, OOBError)))
    with pytest.raises(pl.errors.CheckError, match="isn't positive"):
        others(F32(-3))


def test_exported_programs_go_without():
    assert pl.export.export(USES["jit"])(F32(1)).call(F32(-1)) == -2
