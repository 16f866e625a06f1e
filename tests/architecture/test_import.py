"""Modules that `import pellucid` loads, and its time."""

import subprocess
import sys

FORBIDDEN = {
    "IPython",
    "anywidget",
    "ipykernel",
    "jax",
    "matplotlib",
    "pellucid_kernel",
    "pellucid_profiler",
    "pellucid_viz",
    "scipy",
}

LIST_MODULES = "import sys, pellucid; print(*{name.partition('.')[0] for name in sys.modules})"


def test_core_imports_no_tool_and_nothing_heavy() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "numpy" in listed
    assert FORBIDDEN.isdisjoint(listed)


SHOWN = """
import pellucid as pl
for module in (pl, pl.debugger, pl.viz, pl.profiler):
    module.jit if module is pl else None  # a room of the machine is loaded by now
    print(*[name for name in dir(module) if not name.startswith("_")])
"""


def test_completion_shows_what_users_call_and_nothing_else() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", SHOWN], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    core, debugger, viz, profiler = (set(line.split()) for line in listed)
    assert {"jit", "numpy", "debugger", "viz", "profiler", "sharding", "P"} <= core
    assert not core & {
        "Any",
        "base",
        "importlib",
        "sys",
        "xla",
        "tracing",
        "higher_order",
        "wiring",
    }
    assert {"debug", "find", "explain_grad"} <= debugger
    assert not debugger & {"Any", "importlib", "debug_session"}
    assert {"program", "sharding", "memory"} <= viz
    assert {"profile", "step", "load"} <= profiler
    assert not profiler & {"xspace", "conversion", "recorder"}
