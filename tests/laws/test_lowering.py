"""Lowering is valid for every platform, and a compiled program gives what single primitives give."""

from typing import Any

import pytest

from pellucid.base import config
from pellucid.ir.rewriting import constants_as_inputs
from pellucid.lowering.module import ModuleOptions, lower_module
from pellucid.tracing.staging import stage
from pellucid.tracing.values import type_of
from tests.laws.compare import assert_close
from tests.laws.sample import Sample, all_samples, eager_samples


@pytest.mark.parametrize("sample", eager_samples(), ids=str)
def test_compiled_equals_eager(sample: Sample, compiled: list[Any]) -> None:
    with config.enable_x64(sample.needs_x64):
        expected = sample.function(*sample.arguments)
    assert [type_of(r) for r in compiled] == [type_of(r) for r in expected]
    for i, (got, want) in enumerate(zip(compiled, expected, strict=True)):
        assert_close(got, want, sample.tolerance, f"result {i}")


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_lowering_is_valid_on_other_platforms(sample: Sample) -> None:
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
        jaxpr = constants_as_inputs(jaxpr)
        for platform in ("cuda", "tpu"):
            lowered = lower_module(jaxpr, ModuleOptions("law", platform))
            assert lowered.module.operation.verify()
