"""The type rule predicts the results."""

import pytest

from pellucid.base import config
from pellucid.ir.checking import check_jaxpr
from pellucid.tracing.staging import stage
from pellucid.tracing.values import type_of
from tests.laws.eager import eager_results
from tests.laws.sample import Sample, all_samples


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_results_have_the_predicted_types(sample: Sample) -> None:
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
        check_jaxpr(jaxpr)
        assert [type_of(r) for r in eager_results(sample)] == list(jaxpr.out_avals)
