"""Values, dtypes, weak types, derivatives and programs' texts are those of the reference library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from oracle import Oracle

from pellucid._machine.base import config
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import stage
from tests.laws import jax_answers
from tests.laws.compare import assert_close, assert_same_bits
from tests.laws.directions import cotangents_by, inexact, linear_program, tangents_of
from tests.laws.evaluation import CHUNK, Evaluated
from tests.laws.jax_answers import Answer, Question
from tests.laws.sample import NAMES, Sample, all_samples, differentiable_samples

_differentiate = set(differentiable_samples())
compared = [s for s in all_samples() if s.agrees != "no"]


_answers: dict[Sample, Answer] = {}


@pytest.fixture
def answer(request: pytest.FixtureRequest, oracle: Oracle) -> Answer:
    """The reference library's answer for this test's row, asked together with those for its neighbours."""
    sample = request.node.callspec.params["sample"]
    if sample not in _answers:
        here = [i for i in request.session.items if i.path == request.path]
        rows = list(dict.fromkeys(i.callspec.params["sample"] for i in here))
        start = rows.index(sample) // CHUNK * CHUNK
        chunk = rows[start : start + CHUNK]
        questions = [question(row) for row in chunk]
        _answers.update(zip(chunk, oracle.call_each(jax_answers.answers, questions), strict=True))
    found = _answers[sample]
    assert found.error is None, f"the reference library: {found.error}"
    return found


def question(sample: Sample) -> Question:
    """What the reference library is asked about a row."""
    n = len(sample.operands)
    with config.enable_x64(sample.needs_x64):
        tangents = [unit_direction(sample.arguments[i]) for i in sample.differentiated]
    wrt = sample.differentiated if sample in _differentiate else ()
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


@pytest.mark.parametrize("sample", compared, ids=str)
def test_program_agrees(sample: Sample, answer: Answer, compiled: Evaluated) -> None:
    """Weak types of results, the text of the program and the values are those of the reference library."""
    jaxpr, results = compiled
    assert tuple(a.weak_type for a in jaxpr.out_avals) == answer.weak_types
    if sample.same_text:
        assert in_one_line(str(jaxpr)) == in_one_line(answer.text)
    assert len(results) == len(answer.values)
    for i, (got, expected) in enumerate(zip(results, answer.values, strict=True)):
        assert type_of(got).dtype == expected.dtype, f"result {i}"
        if sample.agrees == "exact":
            assert_same_bits(got, expected, f"result {i}")
        else:
            assert_close(got, expected, sample.tolerance, f"result {i}")


def in_one_line(text: str) -> str:
    """A program's text without its layout."""
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]").strip()


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
def test_derivatives_agree(sample: Sample, answer: Answer, together: Any) -> None:
    results = together(derivative_task, lambda s: s.needs_x64)
    assert answer.derivative_error is None, f"the reference library: {answer.derivative_error}"
    assert len(results) == len(answer.derivatives)
    n_tangents = len(results) - len(sample.differentiated)
    for i, (got, want) in enumerate(zip(results, answer.derivatives, strict=True)):
        what = f"tangent {i}" if i < n_tangents else f"cotangent {i - n_tangents}"
        assert type_of(got).dtype == want.dtype, what
        assert_close(got, want, sample.tolerance, what)
