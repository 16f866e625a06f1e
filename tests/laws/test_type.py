"""The type rule predicts the results."""

from typing import Any

import numpy as np
import pytest

from pellucid.base import config
from pellucid.ir.avals import physical
from pellucid.ir.checking import check_jaxpr
from pellucid.tracing.staging import stage
from pellucid.tracing.values import type_of
from tests.laws.sample import Sample, all_samples


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_results_have_the_predicted_types(sample: Sample, compiled: list[Any]) -> None:
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
    check_jaxpr(jaxpr)
    assert [type_of(r) for r in compiled] == list(jaxpr.out_avals)
    for result, aval in zip(compiled, jaxpr.out_avals, strict=True):
        contents = np.asarray(
            result
        )  # what the compiler made of it, whatever the array says of itself
        assert (contents.shape, contents.dtype) == (physical(aval).shape, physical(aval).dtype)
