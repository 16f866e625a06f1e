"""Modules that `import jax` provides and few programs use run when one of their names is first asked."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from pellucid.as_jax.deferred import DeferredModule, defer

WITH_JAX = """
import sys
import jax
assert "jax.profiler" in sys.modules and not any(n.startswith("pellucid_profiler.") for n in sys.modules)
import jax.profiler
from jax import profiler
assert profiler.__name__ == "jax.profiler" and profiler.__file__
assert not any(n.startswith("pellucid_profiler.") for n in sys.modules)
from jax.profiler import TraceAnnotation
assert TraceAnnotation.__module__ == jax.profiler.trace.__module__ == "jax.profiler"
import pellucid, pellucid_profiler, pellucid.profiler, pellucid_profiler.session
assert pellucid.profiler is jax.profiler is pellucid_profiler is sys.modules["jax.profiler"]
assert "Session" in dir(jax.profiler) and pellucid_profiler.Session is pellucid_profiler.session.Session
assert callable(jax.profiler.findings) and callable(jax.profiler.report)
assert pellucid.profiler.start.__module__ == "jax.profiler"
try:
    jax.profiler.nothing
except AttributeError as error:
    assert str(error) == "module 'jax.profiler' has no attribute 'nothing'", error
"""

BEFORE = """
import pellucid, pellucid.profiler, pellucid.as_jax
pellucid.as_jax.install()
import jax
assert jax.profiler is pellucid.profiler and jax.profiler.trace
"""

PART = """
import jax, sys
import pellucid_profiler.session
assert jax.profiler.Session is pellucid_profiler.session.Session and jax.profiler.Session.__module__ == "jax.profiler"
"""

TRACES = """
import jax, pellucid_profiler.traces
assert jax.profiler.trace is pellucid_profiler.traces.trace
"""

PROGRAMS = {"with jax": WITH_JAX, "before": BEFORE, "part": PART, "traces": TRACES}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_profiler_runs_when_it_is_used(program: str) -> None:
    start = "" if program == BEFORE else "import pellucid.as_jax; pellucid.as_jax.install()\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_parts_of_the_profiler_import_parts() -> None:
    """A part that is imported first and asks the package would run it before it has its own names."""
    for part in (Path(__file__).parents[3] / "profiler/pellucid_profiler").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(part.read_text("utf-8")))]
        asked = [n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level]
        assert "pellucid_profiler" not in asked, part.name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def _deferred(folder: Path, name: str, text: str) -> tuple[ModuleType, list[ModuleType]]:
    (folder / f"{name}.py").write_text(text)
    seen: list[ModuleType] = []
    defer(name, seen.append)
    module = importlib.import_module(name)
    assert type(module) is DeferredModule
    assert module.__file__ == str(folder / f"{name}.py")
    assert not hasattr(module, "__wrapped__")
    assert not seen
    return module, seen


def test_code_runs_once(folder: Path) -> None:
    text = "import of_test_runs\ntimes = getattr(of_test_runs, 'times', 0) + 1\nimport time; time.sleep(0.2)\nlast = 7\n"
    module, seen = _deferred(folder, "of_test_runs", text)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.last)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7, 7, 7]
    assert module.times == 1
    assert seen == [module]
    assert type(module) is ModuleType
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
    defer("of_test_runs", seen.append)
    assert sys.modules.pop("of_test_runs") is module


def test_an_error_is_raised_each_time(folder: Path) -> None:
    module, seen = _deferred(folder, "of_test_fails", "first = 1\nraise KeyError('no')\n")
    for _ in range(2):
        with pytest.raises(KeyError):
            _ = module.second
    assert not seen
    del sys.modules["of_test_fails"]


def test_a_module_that_is_not_installed_is_not_deferred() -> None:
    defer("of_test_nowhere", lambda _: None)
    assert "of_test_nowhere" not in sys.modules


def test_what_is_set_before_the_code_runs_stays(folder: Path) -> None:
    """As when a program replaces `jax.profiler.trace` before anything else asks for the module."""
    module, seen = _deferred(folder, "of_test_set", "first = 1\nlast = 7\n")
    setattr(module, "last", 8)  # the type of modules has no such name
    assert (module.first, module.last) == (1, 8)
    assert seen == [module]


def test_a_name_is_deleted_from_what_the_code_makes(folder: Path) -> None:
    module, _ = _deferred(folder, "of_test_deleted", "first = 1\nlast = 7\n")
    delattr(module, "last")
    assert not hasattr(module, "last")
    assert module.first == 1


@pytest.mark.parametrize("ask", [vars, lambda module: {"last": module.__doc__}])
def test_its_names_and_its_page_are_those_of_its_code(folder: Path, ask: Any) -> None:
    module, _ = _deferred(folder, "of_test_shown", '"""A page."""\nlast = "A page."\n')
    del sys.modules["of_test_shown"]
    assert ask(module)["last"] == "A page."


def test_it_is_pickled_by_its_name(folder: Path) -> None:
    module, seen = _deferred(folder, "of_test_sent", "last = 7\n")
    assert pickle.loads(cloudpickle.dumps(module)) is module
    assert not seen
    assert pickle.loads(cloudpickle.dumps(lambda: module))().last == 7
