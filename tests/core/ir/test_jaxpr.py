"""Programs as values: what users read of their equations."""

import pytest

import pellucid as pl
from pellucid import core, lax


def test_programs_are_read_from_the_params_that_users_see():
    def f(x):
        return lax.cond(x > 0, lambda y: y + 1, lambda y: y * 2, pl.jit(lambda y: -y)(x))

    equations = pl.make_jaxpr(f)(1.0).eqns
    programs = {e.primitive.name: core.jaxprs_in_params(e.params) for e in equations}
    operations = {
        name: [jaxpr.eqns[0].primitive.name for jaxpr in jaxprs]
        for name, jaxprs in programs.items()
    }
    assert operations["jit"] == ["neg"]
    assert operations["cond"] == ["mul", "add"]
    assert operations["gt"] == []


def test_fields_of_the_reference_are_refused_where_they_would_be_others():
    with pytest.raises(TypeError, match="Leave out `traced_for`"):
        core.DebugInfo("jit", "f at file.py:1", ("x",), ("result",))  # pyright: ignore[reportArgumentType]
    names = core.DebugInfo("f at file.py:1", ("x",), ("result",))
    assert (names.name, names.argument_names, names.result_names) == (
        "f at file.py:1",
        ("x",),
        ("result",),
    )
