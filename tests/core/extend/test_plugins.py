"""Plug-ins of other distributions: found in the namespace package and by entry points, and started when they are asked for."""

import os
import subprocess
import sys
import textwrap

import pytest

from pellucid._machine.base.errors import ArgumentValueError
from pellucid.extend.plugins import register_plugin

REGISTERING = """
    from {bridge} import register_plugin
    def initialize():
        print("initialized {name}")
        register_plugin("{name}", priority=500, library_path="/nowhere/{name}.so")
    """
IMPORTS = {
    "pellucid.extend.plugins": "import pellucid as pl",
    "jax._src.xla_bridge": "import pellucid.as_jax; pellucid.as_jax.install(); import jax as pl",
}


@pytest.fixture
def run(tmp_path):
    """A function that runs a program with plug-ins, sources by name, and those of entry points; its output."""

    def run_program(program, modules, entry_points=()):
        package = tmp_path / "jax_plugins"  # without __init__.py: a namespace package
        for name, source in modules.items():
            folder = package / name
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text(textwrap.dedent(source))
        info = tmp_path / "toys-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
        for name, source in entry_points:
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        points = "\n".join(f"{name} = {name}" for name, _ in entry_points)
        (info / "entry_points.txt").write_text(f"[jax_plugins]\n{points}\n")
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env=os.environ | {"PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "", "PELLUCID_PLATFORMS": ""},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    return run_program


@pytest.mark.parametrize("bridge", IMPORTS)
def test_plugins_are_found_when_devices_are_used(run, bridge) -> None:
    program = f"""
        {IMPORTS[bridge]}
        print("imported")
        print(pl.numpy.sum(pl.numpy.ones(3)), pl.devices()[0].platform)
        try:
            pl.devices("abacus")
        except RuntimeError as error:
            print(error)
        """
    modules = {"abacus": REGISTERING.format(bridge=bridge, name="abacus")}
    points = [("slide_rule", REGISTERING.format(bridge=bridge, name="slide_rule"))]
    out, err = run(program, modules, points)
    lines = out.splitlines()
    assert lines[:4] == ["imported", "initialized abacus", "initialized slide_rule", "3.0 cpu"]
    assert "platform 'abacus' is not available" in out
    assert "/nowhere/abacus.so, doesn't exist" in out
    assert err.count("/nowhere/slide_rule.so, doesn't exist") == 1


def test_broken_plugins_are_reported_once(run) -> None:
    modules = {
        "broken": "import no_such_module",
        "failing": "def initialize(): raise ValueError('no licence')",
        "empty": "",
        "xla_cuda99": "raise AssertionError('not imported')",
    }
    program = """
        import pellucid as pl
        print(pl.devices()[0].platform)
        pl.extend.backend.clear_backends()
        print(pl.devices()[0].platform)
        """
    out, err = run(program, modules)
    assert out == "cpu\ncpu\n"
    for name, problem in (
        ("broken", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("failing", "ValueError: no licence"),
        ("empty", "AttributeError"),
    ):
        [line] = [line for line in err.splitlines() if f"jax_plugins.{name} could" in line]
        assert problem in line
    assert "xla_cuda99" not in err


def test_plugins_may_make_their_clients(run) -> None:
    source = """
        import pellucid as pl
        def initialize():
            make = lambda: pl._machine.xla.client.make_cpu_client(3)
            pl.extend.backend.register_backend_factory("abacus", make)
        """
    program = """
        import pellucid as pl
        import pellucid._machine.xla.client, pellucid.extend.backend
        print(len(pl.devices("abacus")), pl.default_backend())
        """
    assert run(program, {"abacus": source})[0] == "3 abacus\n"


def test_start_reads_no_metadata() -> None:
    program = "import sys, pellucid as pl; pl.devices(); print('importlib.metadata' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "False\n"


def test_a_plugin_has_one_library() -> None:
    with pytest.raises(ArgumentValueError, match=r"`library_path` or `c_api`.*\n.*toy"):
        register_plugin("toy")
