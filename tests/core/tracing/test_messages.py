"""The texts of errors about operands, as `tests/messages/operands.md` shows them."""

import os

import numpy as np
import pytest
from message_page import Page

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ShapeError
from pellucid._machine.tracing.operand_texts import name_operands

PAGE = Page("operands.md")


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=PAGE.names)
def test_the_message_is_as_shown(code, text):
    params = {"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)}
    PAGE.check(
        code,
        text,
        {"pl": pl, "x": pl.device_put(np.ones(3, np.float32)), "np": np, "params": params},
    )


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: pl.lax.add(1.0, np.array("s")), "argument 1 of `add`: a NumPy array of dtype <U1 and shape ()"),
        (lambda: pl.jit(lambda x: pl.lax.mul(np.array([None]), x))(1.0), "argument 0 of `mul`: a NumPy array of dtype object"),
        (lambda: pl.lax.sin([1]), "argument 0 of `sin`: [1]"),
        (lambda: pl.lax.select(True, "a", 1.0), "argument 2 of `select_n`: 'a'"),
    ],
)  # fmt: skip
def test_what_is_no_array_is_named_by_operation_and_place(call, line):
    with pytest.raises(ArgumentTypeError) as caught:
        call()
    assert line in str(caught.value).splitlines()[1]


def test_operands_of_one_type_are_named_only_if_each_has_a_line():
    lines: list[tuple[str, ...]] = []

    @pl.jit
    def note(x, y):
        for got in (
            ["operand: f32[3]"],
            ["lhs: f32[3], axis 0", "got f32[3]"],
            ["f32[3], f32[3]"],
            ["2 of f32[3]", "rhs: f32[30]"],
        ):
            error = ShapeError("operands don't fit.", got=got)
            name_operands(error, (x, y))
            lines.append(error.got)
        return x

    note(np.ones(3, np.float32), np.ones(3, np.float32))
    assert lines == [
        ("operand: f32[3]",),
        ("lhs (x): f32[3], axis 0", "y: f32[3]"),
        ("f32[3], f32[3]",),
        ("2 of f32[3]", "rhs: f32[30]"),
    ]


def test_an_error_keeps_the_names_of_the_innermost_function():
    outer = pl.jit(lambda batch: pl.vmap(lambda w, x: pl.lax.add(w, x))(batch["w"], batch["x"]))
    with pytest.raises(ShapeError, match=r"\n  w: f32\[3\], one of 2 in a batch\n  x: f32\[4\]"):
        outer({"w": np.ones((2, 3), np.float32), "x": np.ones((2, 4), np.float32)})


WITH_TRACED_PARAMETERS = [
    ("sum", "axis", lambda x, a: jnp.sum(x, axis=a)),
    ("mean", "axis", lambda x, a: jnp.mean(x, (a,))),
    ("argmax", "axis", jnp.argmax),
    ("cumsum", "axis", jnp.cumsum),
    ("sum", "axis", lambda x, a: x.sum(a)),
    ("concatenate", "axis", lambda x, a: jnp.concatenate([x, x], a)),
    ("concatenate", "dimension", lambda x, a: pl.lax.concatenate([x, x], a)),
    ("softmax", "axis", pl.nn.softmax),
    ("swapaxes", "axis1", lambda x, a: jnp.swapaxes(x, a, 0)),
    ("reshape", "shape", lambda x, a: jnp.reshape(x, (3, a))),
    ("split", "indices_or_sections", jnp.split),
]


@pytest.mark.parametrize(("function", "parameter", "call"), WITH_TRACED_PARAMETERS)
def test_a_traced_value_that_has_to_be_known_is_called_by_function_and_parameter(
    function, parameter, call
):
    x = jnp.ones((3, 3))
    with pytest.raises(TypeError) as raised:
        pl.jit(lambda a: call(x, a))(1)
    text = str(raised.value)
    assert text.startswith(f"`{function}` needs to know `{parameter}` when the program is traced")
    assert "made at argument a of <lambda>" in text
    assert f"in {os.path.basename(__file__)}, line " in text


def test_a_traced_value_that_python_itself_asks_for_is_called_a_python_value():
    for use, call in (("bool", bool), ("int", int), ("float", float), ("index", range)):
        with pytest.raises(TypeError, match=f"was used as a Python {use}"):
            pl.jit(call)(1)
    with pytest.raises(TypeError, match="was used as a NumPy array"):
        pl.jit(np.asarray)(1)
