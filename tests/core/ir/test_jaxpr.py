"""Programs as values: what users read of their equations."""

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
