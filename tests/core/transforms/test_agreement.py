"""Programs that transform programs give what the reference gives."""

import pytest
from corpus import compositions, models, transform_programs

import pellucid

WITHOUT_WEAK_TYPES = {
    compositions.orders_of_two,
    compositions.orders_of_three,
    compositions.loops_over_nothing,
}
"""Programs whose Python numbers pass through loops and remat: whether their derivatives are weakly typed
depends on where the reference removes conversions."""


@pytest.mark.parametrize(
    ("program", "arguments"),
    [*transform_programs.PROGRAMS, *compositions.PROGRAMS],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_agrees_with_the_reference(oracle, program, arguments):
    oracle.check(
        program,
        *arguments,
        library=pellucid,
        weak_types=program not in WITHOUT_WEAK_TYPES,
    )


@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_models_agree_with_the_reference(oracle, program, arguments):
    oracle.check(models.compiled, program, *arguments, library=pellucid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_models_agree_with_the_reference_when_they_run_at_once(oracle, program, arguments):
    oracle.check(program, *arguments, library=pellucid)
