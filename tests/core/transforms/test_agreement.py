"""Programs that transform programs give what the reference gives."""

import pytest
from corpus import compositions, models, transform_programs
from rotation import rotating

import pellucid

WITHOUT_WEAK_TYPES = {
    (
        compositions.taylor_mode,
        None,
    ): "the reference's rules of quotients and powers give strong types, its others don't",
    (
        compositions.orders_of_two,
        "remat",
    ): "a strong tangent of a weak value makes the reference's derivative of remat strong",
}

TOLERANCES = {
    compositions.differential_equation: 1e-4,  # its error is controlled, not its rounding
    compositions.taylor_mode: 1e-4,  # fourth derivatives in 32 bits
}


@pytest.mark.parametrize(
    ("program", "arguments"),
    [*transform_programs.PROGRAMS, *rotating(compositions.PROGRAMS, lambda _: "")],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_agrees_with_the_reference(oracle, program, arguments):
    name = arguments[-1] if arguments and isinstance(arguments[-1], str) else None
    oracle.check(
        program,
        *arguments,
        library=pellucid,
        tolerance=TOLERANCES.get(program),
        weak_types=(program, name) not in WITHOUT_WEAK_TYPES,
        fails=program is transform_programs.forward_through_custom_reverse,
    )


@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_models_agree_with_the_reference(oracle, program, arguments):
    oracle.check(models.compiled, program, *arguments, library=pellucid)


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_models_agree_with_the_reference_when_they_run_at_once(oracle, program, arguments):
    oracle.check(program, *arguments, library=pellucid)
