"""What a row's program says and gives: types, effects, lowering and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pellucid._machine.base import config
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.ir.avals import physical
from pellucid._machine.ir.checking import check_jaxpr
from pellucid._machine.ir.rewriting import constants_as_inputs
from pellucid._machine.lowering.module import ModuleOptions, lower_module
from pellucid._machine.tracing.operands import type_of
from tests.laws.compare import assert_close
from tests.laws.evaluation import Evaluated
from tests.laws.sample import Sample, all_samples, eager_samples


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_program_lowers_everywhere_and_predicts_its_results(
    sample: Sample, compiled: Evaluated
) -> None:
    """The type rules hold, effects are declared, the lowering is valid, and results have the types predicted.

    Values are those of NumPy or SciPy in double precision, where the row names a function of theirs.
    """
    jaxpr, results = compiled
    check_jaxpr(jaxpr)
    assert [type_of(r) for r in results] == list(jaxpr.out_avals)
    for result, aval in zip(results, jaxpr.out_avals, strict=True):
        contents = np.asarray(result)  # what the compiler made, whatever the array says of itself
        assert (contents.shape, contents.dtype) == (physical(aval).shape, physical(aval).dtype)
    with config.enable_x64(sample.needs_x64):
        program = constants_as_inputs(jaxpr)
        for platform in ("cuda", "tpu"):
            options = ModuleOptions("law", (platform,))
            if platform in sample.platforms:
                assert lower_module(program, options).module.operation.verify()
            else:
                with pytest.raises(CompilationError, match=f"platform {platform}"):
                    lower_module(program, options)
    if sample.reference is not None:
        with np.errstate(all="ignore"):
            expected = sample.reference(*(in_double_precision(x) for x in sample.arguments))
        compare(results, expected, sample)


def compare(results: Sequence[Any], expected: Any, sample: Sample) -> None:
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(results) == len(expected)
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        assert_close(got, want, sample.tolerance, f"result {i}")


def in_double_precision(x: Any) -> Any:
    """Arrays of floating elements in double precision; others as they are."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("sample", eager_samples(), ids=str)
def test_compiled_equals_eager(sample: Sample, compiled: Evaluated) -> None:
    with config.enable_x64(sample.needs_x64):
        expected = sample.function(*sample.arguments)
    assert [type_of(r) for r in compiled.results] == [type_of(r) for r in expected]
    compare(compiled.results, expected, sample)
