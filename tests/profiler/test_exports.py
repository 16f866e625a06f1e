"""Exports and comparisons of sessions: their parts add up to the session's totals."""

import json
import sys
import types

import numpy as np
import pytest

from pellucid.introspect.errors import UnsupportedError
from tests.introspect import sample_profiles


def test_columns_add_up() -> None:
    session = sample_profiles.session()
    columns = session.columns()
    assert {len(column) for column in columns.values()} == {len(session.operations)}
    assert columns["self_ns"].sum() == round(session.totals.operation_seconds * 1e9)
    of_first = columns["operation"] == "op.0"
    assert (columns["line"][of_first] == "In[3], line 4").all()
    assert set(columns["category"][of_first]) == {"library"}
    assert sample_profiles.empty().columns()["line"].shape == (0,)


@pytest.mark.parametrize(
    ("method", "package", "function"),
    [("to_pandas", "pandas", "DataFrame"), ("to_polars", "polars", "DataFrame"), ("to_arrow", "pyarrow", "table")],
)  # fmt: skip
def test_tables_of_other_packages(monkeypatch, method: str, package: str, function: str) -> None:
    session = sample_profiles.session()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=f"pip install {package}"):
        getattr(session, method)()
    stand_in = types.SimpleNamespace(**{function: lambda columns: columns})
    monkeypatch.setitem(sys.modules, package, stand_in)
    table = getattr(session, method)()
    assert table["operation"][0] == "op.0"
    assert table["program"] == ["jit_step"] * len(session.operations)


def test_speedscope_weighs_stacks_by_seconds(tmp_path) -> None:
    session = sample_profiles.session()
    session.to_speedscope(tmp_path / "s.json")
    document = json.loads((tmp_path / "s.json").read_text())
    frames = document["shared"]["frames"]
    [profile] = document["profiles"]
    assert profile["type"] == "sampled"
    assert sum(profile["weights"]) == pytest.approx(session.totals.operation_seconds)
    assert profile["endValue"] == pytest.approx(session.totals.operation_seconds)
    assert len(profile["samples"]) == len(profile["weights"])
    leaves = [frames[stack[-1]] for stack in profile["samples"]]
    assert {"name": "dot_general", "file": sample_profiles.CELL, "line": 4} in leaves
    assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)


def test_a_comparison_names_the_line_that_changed() -> None:
    before, after = sample_profiles.session(), sample_profiles.session()
    slow = np.array([info.name == "op.6" for info in before.infos])[before.info_of_operation]
    after.operations.end_ns = after.operations.end_ns + np.where(slow, 7000, 0)
    comparison = before.diff(after)
    assert comparison.after_seconds - comparison.before_seconds == pytest.approx(slow.sum() * 7e-6)
    total = sum(row.change_seconds for row in comparison.lines)
    assert total == pytest.approx(comparison.after_seconds - comparison.before_seconds)
    assert comparison.lines[0].line == "In[3], line 4"
    assert comparison.lines[0].code == "return y + x"
    assert repr(comparison).splitlines()[1].lstrip().startswith("+105 µs")
    assert all(row.change_seconds == 0 for row in before.diff(before).lines)
