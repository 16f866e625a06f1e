"""Guards: conditions that programs raise themselves where they fail."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.checks.errors import CheckSite, FailedCheckError, OOBError
from pellucid._machine.checks.guard import guard
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


BRANCH = lambda x: lax.cond(x > 0, pl.jit(positive), lambda x: x, x)
BAD_BRANCH = lambda x: lax.cond(x > 0, lambda x: x, pl.jit(positive), x)
LOOP = lambda x: lax.while_loop(lambda x: x > 0, lambda x: positive(x) - x - 1, x)
BAD_LOOP = lambda x: lax.while_loop(lambda x: x > -2, lambda x: positive(x) - x - 1, x)
IN_CONDITION = lambda x: lax.while_loop(lambda x: positive(x) > 2, lambda x: x - 1, x)
NESTED = lambda x: lax.cond(
    x < 5, lambda x: lax.scan(lambda c, _: (BAD_BRANCH(c), None), x, length=2)[0], positive, x
)
CUSTOM = pl.custom_jvp(lambda x: positive(x))
CUSTOM.defjvp(lambda primals, tangents: (positive(*primals), tangents[0] * 2))


@pytest.mark.parametrize(
    ("function", "good", "bad", "value"),
    [
        (BRANCH, [1, -3], None, None),
        (BAD_BRANCH, [1, 3], [1, -3], -3),
        (lambda x: lax.switch((x > 0).astype(int), [CUSTOM, lambda x: x], x), [1, 3], [-3, 1], -3),
        (LOOP, [1, 3], None, None),
        (BAD_LOOP, [-2, -3], [-3, 2], 0),
        (IN_CONDITION, [4, 7], [4, 0], 0),
        (NESTED, [7, 3], [7, -3], -3),
    ],
)
def test_elements_of_a_batch_that_go_different_ways_raise_where_they_fail(
    function, good, bad, value
):
    good = np.array(good, F32)
    for run in (pl.vmap(function), pl.jit(pl.vmap(function)), pl.vmap(pl.jit(function))):
        np.testing.assert_array_equal(run(good), [function(x) for x in good])
        if bad is not None:
            with pytest.raises(pl.errors.CheckError, match=rf"{float(value)} isn't positive"):
                run(np.array(bad, F32))
    both = pl.vmap(pl.vmap(function))
    np.testing.assert_array_equal(both(np.stack([good, good])), np.stack([run(good), run(good)]))


def test_guards_within_branches_of_batches_are_values_for_checkify():
    error, y = pl.jit(checkify.checkify(pl.vmap(BAD_BRANCH)))(np.array([1, -3], F32))
    assert "-3.0 isn't positive" in error.get()
    np.testing.assert_array_equal(y, [1, -6])


def test_checkify_makes_values_of_guards_in_calls_with_rules_of_users():
    error, y = pl.jit(checkify.checkify(CUSTOM))(F32(-3))
    assert "-3.0 isn't positive" in error.get()
    assert y == -6


def test_gradients_go_through_branches_of_batches_with_guards():
    x = np.array([1, 3, 5], F32)
    gradient = pl.jit(pl.vmap(pl.grad(BRANCH)))
    np.testing.assert_array_equal(gradient(x - 2), [1, 2, 2])


def test_checkify_makes_values_of_those_that_it_is_asked_for():
    error, y = pl.jit(checkify.checkify(positive))(F32(-3))
    assert "-3.0 isn't positive" in error.get()
    assert y == -6
    others = pl.jit(checkify.checkify(lambda x: positive(x, OOBError)))
    with pytest.raises(pl.errors.CheckError, match="isn't positive"):
        others(F32(-3))


def test_exported_programs_go_without():
    assert pl.export.export(USES["jit"])(F32(1)).call(F32(-1)) == -2
