"""Values, dtypes, weak types, derivatives and programs' texts are those of the reference library."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.base import config
from pellucid.tracing.staging import stage
from pellucid.tracing.values import type_of
from tests.laws.compare import assert_close, assert_same_bits
from tests.laws.directions import cotangents_by, inexact, linear_program, tangents_of
from tests.laws.jax_answers import Answer, Question
from tests.laws.sample import NAMES, Sample, all_samples, differentiable_samples

pytestmark = pytest.mark.oracle

_differentiated = set(differentiable_samples())
compared = [s for s in all_samples() if s.agrees != "no"]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> dict[Sample, Answer]:
    """The reference library's answers for the rows that were collected."""
    here = [i for i in request.session.items if i.path == request.path]
    samples = list(dict.fromkeys(i.callspec.params["sample"] for i in here))
    child = subprocess.run(
        [sys.executable, "-m", "tests.laws.jax_answers"], check=False, capture_output=True,
        input=pickle.dumps([question(s) for s in samples]), cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if child.returncode:
        raise RuntimeError(child.stderr.decode())
    return dict(zip(samples, pickle.loads(child.stdout), strict=True))


def question(sample: Sample) -> Question:
    """What the reference library is asked about a row."""
    n = len(sample.operands)
    with config.enable_x64(sample.needs_x64):
        tangents = [unit_direction(sample.arguments[i]) for i in sample.differentiated]
    wrt = sample.differentiated if sample in _differentiated else ()
    return Question(
        sample.jax_call or sample.call, NAMES[:n], sample.arguments, sample.needs_x64, wrt,
        tangents, cotangents(sample),
    )  # fmt: skip


def unit_direction(x: Any) -> np.ndarray:
    """Ones, with an imaginary part where `x` is complex."""
    x = np.asarray(x)
    dtype = type_of(x).dtype
    return np.full(x.shape, 1 + 0.5j if dtype.kind == "c" else 1, dtype)


def cotangents(sample: Sample) -> list[np.ndarray]:
    """A cotangent for each floating result."""
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
    return [
        np.full(a.shape, 1 - 0.5j if a.dtype.kind == "c" else 1, a.dtype)
        for a in jaxpr.out_avals
        if inexact(a)
    ]


def answered(answers: dict[Sample, Answer], sample: Sample) -> Answer:
    """The answer for a row; fails if the reference library could not evaluate it."""
    answer = answers[sample]
    assert answer.error is None, f"the reference library: {answer.error}"
    return answer


@pytest.mark.parametrize("sample", compared, ids=str)
def test_values_agree(sample: Sample, answers, compiled: list[Any]) -> None:
    answer = answered(answers, sample)
    assert len(compiled) == len(answer.values)
    for i, (got, expected) in enumerate(zip(compiled, answer.values, strict=True)):
        assert type_of(got).dtype == expected.dtype, f"result {i}"
        if sample.agrees == "exact":
            assert_same_bits(got, expected, f"result {i}")
        else:
            assert_close(got, expected, sample.tolerance, f"result {i}")


@pytest.mark.parametrize("sample", compared, ids=str)
def test_weak_types_agree(sample: Sample, answers) -> None:
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
    assert tuple(a.weak_type for a in jaxpr.out_avals) == answered(answers, sample).weak_types


def derivative_task(sample: Sample):
    """Tangents of the floating results, then cotangents of the operands."""
    wrt = sample.differentiated
    mask = [i in wrt for i in range(len(sample.operands))]

    def function(*points: Any) -> list[Any]:
        given = [
            unit_direction(p) if m else None for p, m in zip(sample.arguments, mask, strict=True)
        ]
        tangents = tangents_of(sample.function, points, given, mask)
        return [
            *tangents,
            *cotangents_by(linear_program(sample.function, points, mask), cotangents(sample)),
        ]

    return function, sample.arguments


@pytest.mark.parametrize(
    "sample", [s for s in differentiable_samples() if s.agrees != "no" and s.has_reverse], ids=str
)
def test_derivatives_agree(sample: Sample, answers, together) -> None:
    results = together(derivative_task, lambda s: s.needs_x64)
    answer = answered(answers, sample)
    assert answer.derivative_error is None, f"the reference library: {answer.derivative_error}"
    assert len(results) == len(answer.derivatives)
    n_tangents = len(results) - len(sample.differentiated)
    for i, (got, want) in enumerate(zip(results, answer.derivatives, strict=True)):
        what = f"tangent {i}" if i < n_tangents else f"cotangent {i - n_tangents}"
        assert type_of(got).dtype == want.dtype, what
        assert_close(got, want, sample.tolerance, what)


@pytest.mark.parametrize("sample", [s for s in compared if s.same_text], ids=str)
def test_texts_of_programs_agree(sample: Sample, answers) -> None:
    with config.enable_x64(sample.needs_x64):
        jaxpr, _ = stage(sample.function, [type_of(x) for x in sample.arguments])
    assert in_one_line(str(jaxpr)) == in_one_line(answered(answers, sample).text)


def in_one_line(text: str) -> str:
    """A program's text without its layout."""
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]").strip()
