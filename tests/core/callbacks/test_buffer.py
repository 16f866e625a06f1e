"""Python functions on the buffers of a running program."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import (
    ArgumentValueError,
    CallbackError,
    DerivativeRuleError,
    UnsupportedError,
)
from pellucid.experimental.buffer_callback import (
    Buffer,
    ExecutionContext,
    ExecutionStage,
    buffer_callback,
)
from pellucid.sharding import AxisType

X = np.arange(4, dtype=np.float32)


def copy(context, out, x):
    np.asarray(out)[...] = np.asarray(x)


def test_what_the_function_receives() -> None:
    def look(context, out, x):
        facts.extend(
            [type(context), context.stage, type(x), x.shape, x.dtype, x.writeable, out.writeable]
        )
        copy(context, out, x)

    facts: list[object] = []
    assert pl.jit(buffer_callback(look, X))(X).tolist() == X.tolist()
    expected = [ExecutionContext, ExecutionStage.EXECUTE, Buffer, (4,), X.dtype, False, True]
    assert facts == expected


@pytest.mark.parametrize("has_side_effect", [False, True])
def test_unused_results(has_side_effect) -> None:
    def count(context, out, x):
        calls.append(1)
        copy(context, out, x)

    calls: list[int] = []
    function = buffer_callback(count, X, has_side_effect=has_side_effect)
    pl.jit(lambda x: (function(x), x)[1])(X).block_until_ready()
    pl.effects_barrier()
    assert len(calls) == has_side_effect


def test_failures_are_those_of_the_function() -> None:
    def bad(context, out, x):
        raise KeyError("no such thing")

    with pytest.raises(CallbackError, match="`bad` raised KeyError") as caught:
        pl.jit(buffer_callback(bad, X))(X).block_until_ready()
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(CallbackError, match="must return None"):
        pl.jit(buffer_callback(lambda context, out, x: 3, X))(X).block_until_ready()


@pytest.mark.parametrize(
    ("aliases", "message"),
    [({1: 0}, "that there isn't"), ({0: 1}, "that there isn't"), ({0: 0}, "one type")],
)
def test_bad_aliases(aliases, message) -> None:
    function = buffer_callback(copy, np.zeros(3, np.float32), input_output_aliases=aliases)
    with pytest.raises(ArgumentValueError, match=message):
        function(X)


def test_what_it_can_not_do_is_refused() -> None:
    function = buffer_callback(copy, X)
    with pytest.raises(DerivativeRuleError, match="buffer_callback has no derivative"):
        pl.grad(lambda x: function(x).sum())(X)
    mesh = pl.make_mesh((2,), ("a",), (AxisType.Auto,))
    x = pl.device_put(X, pl.NamedSharding(mesh, pl.P("a")))
    with pytest.raises(UnsupportedError, match="a program over several devices can't call"):
        pl.jit(function)(x)
