"""Recordings of debugged runs: what they keep, and the page that opens without a kernel."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect.errors import ArgumentValueError
from pellucid_kernel.debug import record


def layer(w, x):
    h = x * w
    return jnp.sin(h)


@pl.jit
def total(weights, x):
    y = x + 1

    def body(c, w):
        z = layer(w, c)
        return z, c

    y, _ = lax.scan(body, y, weights)
    return y * 2


WEIGHTS, X = jnp.arange(3.0), np.float32(1)


@pytest.fixture(autouse=True)
def collected() -> None:
    """What other tests left is gone: its finalizers would run lines of Python in a recorded call."""
    gc.collect()


def lines(recording) -> list[str]:
    return [row.split("  ")[-1] for row in str(recording).splitlines() if ".py:" in row]


def test_a_run_is_run_line_by_line_with_the_values_of_each() -> None:
    recording = record(total)(WEIGHTS, X)
    assert lines(recording) == [
        "y = x + 1",
        "def body(c, w):",
        "y, _ = lax.scan(body, y, weights)",
        *["z = layer(w, c)", "h = x * w", "return jnp.sin(h)", "return z, c"] * 3,
        "return y * 2",
    ]
    run = recording.record
    first, inner = run.stacks[0], run.stacks[4]
    assert [run.frames.function[i] for i in first][1:] == ["total"]
    assert [run.frames.function[i].rpartition(".")[2] for i in inner][1:] == [
        "total",
        "body",
        "layer",
    ]
    assert [run.frames.run[i] for i in inner][1:] == ["", "(iteration 0 of 3)", ""]
    shown = {run.values.name[i]: run.values.text[i] for i in run.variables[-1][-1]}
    assert shown["y"] == f"f32[] {total(WEIGHTS, X) / 2}"
    assert run.results == [f"f32[] {total(WEIGHTS, X)}"]
    assert not run.is_cut
    assert json.loads(json.dumps(run.to_dict())) == run.to_dict()


def test_residuals_and_cotangents_have_no_names_of_arguments() -> None:
    values = record(pl.grad(total, 1))(WEIGHTS, X).record.values
    pairs = zip(values.name, values.text, strict=True)
    assert {text for name, text in pairs if name == "w"} == {f"f32[] {w}" for w in (0.0, 1.0, 2.0)}


def test_lines_are_gone_over_and_a_recording_is_cut() -> None:
    assert lines(record(total, into=False)(WEIGHTS, X)) == [
        "y = x + 1", "def body(c, w):", "y, _ = lax.scan(body, y, weights)", "return y * 2",
    ]  # fmt: skip
    cut = record(total, limit=2)(WEIGHTS, X)
    assert str(cut).startswith("2 stops of total, cut\n")
    assert cut.record.results == [f"f32[] {total(WEIGHTS, X)}"]
    with pytest.raises(ArgumentValueError, match="at least one stop"):
        record(total, limit=0)


def test_effects_happen_once_and_errors_come_through(capsys) -> None:
    def shown(x):
        pl.debug.print("x = {}", x, ordered=True)
        return x * 2

    record(shown)(3)
    pl.effects_barrier()
    assert capsys.readouterr().out == "x = 3\n"
    with pytest.raises(TypeError):
        record(shown)("three")


def test_the_page_needs_no_kernel(tmp_path) -> None:
    page = record(total)(WEIGHTS, X).save(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "h = x * w" in page
    assert "<script" in page
