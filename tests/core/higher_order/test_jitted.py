"""Jitted functions as objects: copies and pickles."""

import copy
import functools
import pickle

import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError


@pl.jit
def doubled(x):
    return x + x


def halved(x):
    return x / 2


def test_a_decorated_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_another_function_of_that_name_is_pickled_as_a_call_of_jit():
    function = pl.jit(halved, inline=True)
    copied = pickle.loads(pickle.dumps(function))
    assert copied is not function
    assert copied(3.0) == 1.5
    assert copied.jitted.options.inline
    assert copied.jitted.spec.function is halved


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_the_function_itself(copied):
    assert doubled(1.0) == 2
    assert copied({"f": [doubled]}["f"])[0] is doubled


def test_public_functions_are_pickled_by_their_names():
    for function in (pl.numpy.sin, pl.numpy.add, pl.numpy.linalg.norm, pl.nn.relu):
        assert pickle.loads(pickle.dumps(function)) is function


def test_names_of_arguments_that_have_none_are_refused():
    def f(a, /, *args, **kwargs):
        return a

    for name in ("a", "args"):
        for option in ("static_argnames", "donate_argnames"):
            with pytest.raises(ArgumentValueError, match="by position only"):
                pl.jit(f, **{option: name})
    assert pl.jit(f, static_argnames="b")(1, b="text") == 1


class Odd:
    """An object that is called, with attributes that a function can't have."""

    __name__ = __annotations__ = __type_params__ = property(lambda self: 3)

    def __call__(self, x, n=2):
        return n * x


@pytest.mark.parametrize(
    "transformation",
    [
        pl.jit, functools.partial(pl.jit, static_argnums=1), pl.vmap, pl.grad, pl.value_and_grad, pl.jacfwd, pl.checkpoint,
        pl.custom_jvp, pl.numpy.vectorize, pl.make_jaxpr, functools.partial(pl.lax.composite, name="a.b"),
    ],
)  # fmt: skip
def test_objects_with_attributes_of_other_types_are_transformed(transformation):
    function = transformation(Odd())
    if transformation is not pl.custom_jvp:
        function(pl.numpy.ones(1) if transformation is pl.vmap else 1.0)
