"""Detail sessions measure each equation, and say that they are of another program."""

from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError
from pellucid.profiler import detail, load


def test_each_line_of_a_fusion_is_measured(tmp_path: Path) -> None:
    @pl.jit
    def function(x, w):
        y = jnp.tanh(x @ w)
        z = y * 2 + x
        return (z * z).sum()

    x = jnp.ones((300, 300))
    session = detail(function, x, w=x)
    first = function.__wrapped__.__code__.co_firstlineno
    lines = {row.place.line - first for row in session.lines if row.place and row.measured_seconds}
    assert lines >= {2, 3, 4}
    assert "another program" in session.report()
    assert session.record().totals.is_detail
    session.save(tmp_path / "detail.plprof")
    assert load(tmp_path / "detail.plprof").is_detail


def test_what_is_no_jitted_function_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="needs a jitted function"):
        detail(np.mean, 1)
