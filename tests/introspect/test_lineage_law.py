"""Every equation of a transformed program reaches one of the program it was made from, or says what it is."""

import numpy as np
import pytest
from corpus import compositions, models, transform_programs
from rotation import rotating

import pellucid as pl
from pellucid import analysis
from pellucid._machine.base.errors import MissingRule
from pellucid.introspect.lineage import equations_by_id
from tests.introspect.lineage_law import (
    PREPARED,
    TRANSFORMATIONS,
    of_floats,
    transformed,
    unexplained,
)

WITH_CONCRETE_VALUES = {
    compositions.orders_of_two,
    compositions.orders_of_three,
    transform_programs.rematerialized_layers,
}
"""Programs that stack arguments with NumPy, or whose arguments choose what they do."""
WITHOUT_REVERSE_MODE = {
    transform_programs.counted,
    transform_programs.counted_tangent,
    transform_programs.doubling,
    transform_programs.doubling_batched,
    transform_programs.batched_bound_of_loop,
    transform_programs.fixed_point,
    models.fixed_point_with_own_derivative,
}
"""Programs with loops whose number of steps is known only when they run."""
PROGRAMS = {
    program: arguments
    for program, arguments in [
        *transform_programs.PROGRAMS,
        *models.PROGRAMS,
        *compositions.PROGRAMS,
    ]
    if program not in WITH_CONCRETE_VALUES
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(
    "program",
    rotating([(p,) for p in PROGRAMS], lambda case: case[0].__module__),
    ids=lambda p: p.__name__,
)
def test_every_equation_says_where_it_comes_from(program):
    traced = pl.make_jaxpr(lambda *xs: program(pl, *xs))(*PROGRAMS[program])
    function, floats = of_floats(traced)
    if not floats:
        assert traced.in_avals == () or not any(
            pl.dtypes.issubdtype(a.dtype, np.inexact) for a in traced.in_avals
        )
        return
    for prepare in PREPARED.values():
        closed = pl.make_jaxpr(prepare(function))(*floats)
        base = frozenset(equations_by_id(closed.jaxpr))
        for name in TRANSFORMATIONS:
            if "grad" in name and program in WITHOUT_REVERSE_MODE:
                with pytest.raises(MissingRule, match="steps is known only when it runs"):
                    transformed(closed, name)
                continue
            result = transformed(closed, name)
            assert unexplained(result, base) == [], name


@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_every_operation_that_is_lowered_names_an_equation(program, arguments):
    traced = pl.jit(lambda *xs: program(pl, *xs)).trace(*arguments)
    equations = set(equations_by_id(traced.jaxpr.jaxpr))
    record = analysis.program(traced.lower(), listing=False)
    columns = record.equations
    origins = iter(columns.origins)
    unnamed = []
    for primitive, count in zip(columns.primitive, columns.origin_counts, strict=True):
        actual = {next(origins) for _ in range(count)}
        if not actual or not actual <= equations:
            unnamed.append(record.strings[primitive])
    assert unnamed == []


def test_a_root_made_by_nobody_is_found():
    closed = pl.make_jaxpr(lambda x: x * 2.0)(1.0)
    base = frozenset(equations_by_id(closed.jaxpr))
    other = pl.make_jaxpr(lambda x: pl.numpy.sin(x))(1.0)
    [equation] = other.equations
    assert unexplained(other, base) == [equation]
    assert unexplained(closed, base) == []
