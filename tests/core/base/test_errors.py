"""Errors that users construct, subclass and pickle."""

import pickle

import pytest

import pellucid as pl
from pellucid import errors
from pellucid._machine.base import errors as base

OF_TRACED_VALUES = [
    errors.ConcretizationTypeError, errors.NonConcreteBooleanIndexError, errors.TracerArrayConversionError,
    errors.TracerBoolConversionError, errors.TracerIntegerConversionError, errors.UnexpectedTracerError,
]  # fmt: skip


class Refused(errors.TracerArrayConversionError):
    pass


@pytest.mark.parametrize("error", [*OF_TRACED_VALUES, Refused])
def test_libraries_raise_them_with_a_traced_value(error):
    raised = []
    pl.eval_shape(lambda x: raised.append(error(x)) or x, pl.numpy.ones(3))
    [first] = raised
    what, got = str(first).splitlines()
    assert (what[0], what[-1]) == ("A", ".")
    assert got == "  got f32[3]"
    assert str(pickle.loads(pickle.dumps(first))) == str(first)
    assert str(error("a text")) == "a text"


def test_context_is_part_of_the_message():
    raised = []
    pl.eval_shape(lambda x: raised.append(errors.ConcretizationTypeError(x, "in the loop")), 1.0)
    assert str(raised[0]).splitlines()[-1] == "  in the loop"


def test_the_runtime_error_is_the_one_that_jaxlib_raises():
    """So that `except JaxRuntimeError` catches what comes from jaxlib's own code, and all of ours of its kind."""
    assert not issubclass(errors.JaxRuntimeError, base.PellucidError)
    assert errors.JaxRuntimeError.__module__ == "pellucid.errors"
    with pytest.raises(errors.JaxRuntimeError, match="no compiler option 'nonsense'"):
        pl.jit(lambda x: x).lower(1.0).compile(compiler_options={"nonsense": 1})

    def fails():
        raise KeyError("boom")

    like = pl.ShapeDtypeStruct((), "float32")
    with pytest.raises(errors.JaxRuntimeError, match="boom"):
        pl.jit(lambda: pl.pure_callback(fails, like))()
    for error in (base.PeerFailureError, base.DistributedTimeoutError, base.OutOfMemoryError):
        assert issubclass(error, errors.JaxRuntimeError)
