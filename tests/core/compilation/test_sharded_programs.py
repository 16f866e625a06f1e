"""Programs over eight devices give what the reference gives, and what they give on one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import sharded_programs
from corpus.sharded_programs import PROGRAMS

import pellucid


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any, arguments: Any) -> None:
    oracle_8_devices.check(program, *arguments, library=pellucid, tolerance=1e-4)


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_equals_one_device(program: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sharded = program(pellucid, *arguments)

    def mesh_of_one(library: Any, **axes: int) -> Any:
        return library.make_mesh(
            (1,) * len(axes), tuple(axes), (library.sharding.AxisType.Auto,) * len(axes)
        )

    monkeypatch.setattr(sharded_programs, "mesh_of", mesh_of_one)
    single = program(pellucid, *arguments)
    for ours, expected in zip(*map(pellucid.tree.leaves, (sharded, single)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
