"""The table of special functions' errors: what it states holds, and no error is larger than the reference's."""

import re

import pytest

import pellucid as pl
from tools import special_errors

FEW_ULP = ("dawsn", "exp1", "expn(1)", "expn(2)", "i1", "log_ndtr", "logit", "rel_entr", "spence")
ROWS = {row.name: row for row in special_errors.ROWS}


def errors_in(cell: str) -> tuple[float, int]:
    """(largest error in ulp, number of arguments without a value) of a cell of the table."""
    [(error, count)] = re.findall(r"^([\d.e]+)(?:, no value at (\d+) of \d+)?$", cell)
    return float(error), int(count or 0)


def test_every_row_is_measured_and_no_error_is_larger_than_the_references() -> None:
    measured = dict(special_errors.measured_lines())
    assert measured.keys() == ROWS.keys()
    for line in measured.values():
        _, *cells = line.strip("| \n").split(" | ")
        largest, missing = zip(*map(errors_in, cells), strict=True)
        for ours, theirs in (largest[:2], largest[2:], missing[:2], missing[2:]):
            assert ours <= theirs, line


@pytest.mark.parametrize("name", FEW_ULP)
def test_float64_has_all_but_the_last_digits(name: str) -> None:
    row = ROWS[f"special.{name}"]
    operands = [x[::3] for x in special_errors.operands_of(row, "float64")]
    with pl.enable_x64(True):
        results = special_errors.called(pl, row, operands)
    exact = special_errors.exact_values(row, operands)
    errors = [
        special_errors.error_in_ulp(r, e, "float64") for r, e in zip(results, exact, strict=True)
    ]
    assert max(e for e in errors if e is not None) < 9
