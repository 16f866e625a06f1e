"""Records of jitted functions, live arrays and errors."""

import sys

import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis, introspect
from pellucid.introspect.errors import ArgumentValueError


def entries(name):
    return [each.entries for each in introspect.functions().functions if each.name == name]


def test_a_function_lists_its_programs_and_why_they_were_made():
    @pl.jit
    def listed_function(x):
        return jnp.sin(x) + 1

    listed_function(jnp.ones(3))
    listed_function(jnp.ones(4))
    [[first, second]] = entries("listed_function")
    assert (first.arguments, second.arguments) == (["x: f32[3]"], ["x: f32[4]"])
    assert [cause.part for cause in second.miss.causes] == ["shape"]
    assert (first.equation_count, first.executable_count) == (2, 1)
    assert introspect.functions().functions[0].name == "listed_function"
    program = analysis.function_view(second.id)
    assert "sin" in program.strings


def test_a_dropped_function_is_not_listed():
    def make():
        pl.jit(dropped_function)(2.0)

    def dropped_function(x):
        return x

    make()
    assert entries("dropped_function") == []


@pytest.fixture
def failed():
    """The last error, as an interactive shell keeps it; its frame holds an array."""

    def body(held):
        return held @ jnp.ones((9, 9))

    try:
        body(jnp.ones((31, 7)))
    except TypeError as error:
        sys.last_value = error
    yield sys.last_value
    del sys.last_value


def held_arrays():
    return [a for a in introspect.memory({}).arrays if a.type == "f32[31,7]"]


def test_what_an_error_holds_is_shown_and_let_go(failed):
    [array] = held_arrays()
    assert "sys.last_value: held in body" in array.holders
    introspect.clear_failed_frames()
    assert held_arrays() == []


def test_an_error_becomes_a_record_with_the_users_frames(failed):
    record = introspect.error(failed)
    assert record.name == "ShapeError"
    assert record.frames[-1].function.endswith("body")
    assert "held @ jnp.ones((9, 9))" in record.frames[-1].source.lines[
        record.frames[-1].line - record.frames[-1].source.first_line
    ]  # fmt: skip
    assert all("pellucid/numpy" not in frame.source.path for frame in record.frames)
    assert "products.py" in record.traceback


def test_other_errors_have_no_record():
    assert introspect.error(ValueError("x")) is None


def test_a_live_array_can_be_freed_by_its_id():
    x = jnp.ones((13, 11))
    [array] = [a for a in introspect.memory({"x": x}).arrays if a.owners == ["x"]]
    assert introspect.delete_array(array.id) == 13 * 11 * 4
    assert x.is_deleted()
    with pytest.raises(ArgumentValueError, match="gone"):
        introspect.delete_array(array.id)


def test_shards_that_somebody_looked_at_are_not_counted_twice():
    mesh = pl.sharding.Mesh(pl.devices(), ("x",))
    x = pl.device_put(jnp.ones((800,)), pl.NamedSharding(mesh, pl.P("x")))
    shards = [shard.data for shard in x.addressable_shards]
    actual = [a for a in introspect.memory({"x": x, "shards": shards}).arrays if "x" in a.owners]
    assert len(shards) == 8
    assert [a.total_bytes for a in actual] == [3200]
    assert not [a for a in introspect.memory({"x": x}).arrays if a.type == "f32[100]"]


def test_short_text_waits_for_nothing():
    assert introspect.short_text(3) is None
    assert introspect.short_text({"a": jnp.ones(2), "b": 1}) == "dict of 1 array, 8 B"
    assert introspect.short_text(["text"]) is None


def test_the_record_of_an_error_has_its_notes():
    with pytest.raises(TypeError) as raised:
        jnp.ones((2, 3)) @ jnp.ones((4, 5))
    first = introspect.error(raised.value)
    raised.value.add_note("Both came from `load`.")
    noted = introspect.error(raised.value)
    assert first is not None
    assert noted is not None
    assert noted.what == f"{first.what}\nBoth came from `load`."
