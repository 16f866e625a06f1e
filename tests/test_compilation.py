"""Programs of one file in eight compile as users' do, those of the others quickly."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import compilation
import pytest
import rotation

import pellucid as pl

PROGRAM = r"""
import re
import numpy as np, pellucid as pl
compiled = pl.jit(lambda x: pl.numpy.exp(pl.numpy.sin(x)).sum()).lower(np.ones(64, np.float32)).compile()
print(re.sub(r"FileNames.*?\n\n\n|, metadata=\{[^}]*\}", "", compiled.as_text(), flags=re.DOTALL))
"""
"""Prints a compiled program without its sources."""


def text_in_this_process(capsys: pytest.CaptureFixture[str]) -> str:
    pl.clear_caches()
    exec(PROGRAM, {})
    return capsys.readouterr().out


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> Any:
    """A plugin of its own in a process that compiles quickly."""
    if not pytestconfig.pluginmanager.has_plugin(compilation.NAME):
        pytest.skip("needs a run that compiles quickly")
    monkeypatch.setattr(compilation.pipeline, "compile_options", compilation._options)
    plugin = compilation.Compilation()
    yield plugin
    plugin._patch.undo()


def test_files_take_turns(plugin: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    part = rotation.part_of("a.py")
    monkeypatch.setattr(rotation, "part_of_run", lambda: part)
    monkeypatch.setenv("XLA_FLAGS", compilation.QUICK)
    quick = text_in_this_process(capsys)
    plugin.pytest_runtest_protocol(SimpleNamespace(nodeid="a.py::test[0]"))
    usual = text_in_this_process(capsys)
    assert os.environ["XLA_FLAGS"] == ""
    users = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    assert usual == users != quick
    other = next(f"{i}.py::test" for i in range(99) if rotation.part_of(f"{i}.py") != part)
    plugin.pytest_runtest_protocol(SimpleNamespace(nodeid=other))
    assert os.environ["XLA_FLAGS"] == compilation.QUICK
    assert text_in_this_process(capsys) == quick


def test_options_of_a_program_stay() -> None:
    options = compilation.usual_options(
        pl.devices()[:1],
        [("xla_backend_optimization_level", 1), ("xla_cpu_enable_fast_math", True)],
    )
    assert dict(options.env_option_overrides) == {
        "xla_cpu_use_fusion_emitters": True, "xla_backend_optimization_level": 1, "xla_cpu_enable_fast_math": True,
    }  # fmt: skip
