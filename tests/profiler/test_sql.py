"""The command that answers SQL over recordings in files."""

import csv
import io
import json
import sys
import types
from pathlib import Path
from typing import Self

import pytest

import pellucid as pl
from pellucid import numpy as jnp, profiler
from pellucid_profiler import queries
from pellucid_profiler.sql import main

CALLS = "select count(*) as calls from slice where name = 'step one'"


@pytest.fixture(scope="module")
def recorded() -> profiler.Session:
    """A session of three marked calls."""
    function, x = pl.jit(lambda x: jnp.tanh(x @ x)), jnp.ones((16, 16))
    function(x).block_until_ready()
    with profiler.profile() as session:
        for _ in range(3):
            with profiler.annotate("step one"):
                function(x).block_until_ready()
    return session.wait()


@pytest.fixture(autouse=True)
def by_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Perfetto's program isn't there, whatever this machine has."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(queries.VARIABLE, raising=False)


def test_a_saved_session_answers(recorded: profiler.Session, tmp_path: Path, capsys) -> None:
    recorded.save(tmp_path / "a.session")
    assert main([str(tmp_path / "a.session"), CALLS]) == 0
    assert capsys.readouterr().out == "calls\n    3\n"


def test_what_the_profiler_of_xla_wrote_answers(tmp_path: Path, capsys) -> None:
    with profiler.profile(programs=True) as session:
        pl.jit(lambda x: x + 1)(1.0).block_until_ready()
    session.to_xspace(tmp_path / "a.xplane.pb")
    query = "select count(*) > 0 as some from slice"
    for path in (tmp_path, tmp_path / "a.xplane.pb"):
        assert main([str(path), query, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == [{"some": 1}]


def test_each_format_holds_the_rows(
    recorded: profiler.Session, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.save(tmp_path / "a.session")
    query = "select name, dur, parent_id from slice order by ts limit 4"
    expected = recorded.sql(query)
    command = [str(tmp_path / "a.session"), query, "--format"]
    assert main([*command, "json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert main([*command, "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["dur"] for row in rows] == [str(row["dur"]) for row in expected]
    assert main([*command, "table"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["name", "dur"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(CALLS))
    assert main([str(tmp_path / "a.session"), "-"]) == 0
    assert capsys.readouterr().out == "calls\n    3\n"
    assert main([str(tmp_path / "a.session"), "select name from slice where 0"]) == 0
    assert capsys.readouterr().out == "(no rows)\n"


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        ("absent.session", CALLS, "there is no file"),
        ("a.session", "select * from nowhere", "no such table"),
        ("a.session", "delete from slice", "readonly"),
        ("a.pftrace", CALLS, queries.VARIABLE),
    ],
)
def test_what_fails_says_why(
    recorded: profiler.Session, tmp_path: Path, capsys, name: str, query: str, message: str
) -> None:
    recorded.save(tmp_path / "a.session")
    recorded.to_perfetto(tmp_path / "a.pftrace")
    assert main([str(tmp_path / name), query]) == 1
    assert message in capsys.readouterr().err


def test_a_perfetto_trace_is_handed_to_its_program(
    recorded: profiler.Session, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Processor:
        """Stand-in for Perfetto's Trace Processor, whose program isn't here."""

        def __init__(self, trace: str, config: object) -> None:
            opened.append(trace)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def query(self, sql: str) -> list[types.SimpleNamespace]:
            return [types.SimpleNamespace(asked=sql)]

    module = types.SimpleNamespace(
        TraceProcessor=Processor, TraceProcessorConfig=dict, TraceProcessorException=ValueError
    )
    monkeypatch.setitem(sys.modules, "perfetto.trace_processor", module)
    program = tmp_path / queries.PROGRAM
    program.touch()
    monkeypatch.setenv(queries.VARIABLE, str(program))
    recorded.to_perfetto(tmp_path / "a.pftrace")
    assert main([str(tmp_path / "a.pftrace"), "select 1"]) == 0
    assert capsys.readouterr().out == "asked\nselect 1\n"
    assert opened == [str(tmp_path / "a.pftrace")]
