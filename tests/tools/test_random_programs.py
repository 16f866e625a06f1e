"""Processes that run random programs: what they print is answers alone, and programs that don't end end theirs."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def run(lines: str) -> subprocess.CompletedProcess[str]:
    """A process that imports the tool and runs `lines`."""
    program = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r})\nimport random_programs as tool\n{lines}"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100
    )


def test_what_libraries_print_is_no_answer() -> None:
    ended = run(
        "import os; stream = tool.stream_of_answers(); os.write(1, b'from C'); print('from Python'); print('7', file=stream, flush=True)"
    )
    assert ended.stdout.split() == ["7"]
    assert "from C" in ended.stderr
    assert "from Python" in ended.stderr


def test_a_program_that_does_not_end_ends_its_process() -> None:
    ended = run(
        "tool.SECONDS_PER_PROGRAM = 1\nsys.path.insert(0, str(tool.ROOT / 'tests' / 'corpus'))\nimport drawn.programs as programs\n"
        "programs.run = lambda *given: [0 for _ in iter(int, 1)]\ntool.work_on_area('math', 3, 5, 'special')"
    )
    assert ended.returncode == -signal.SIGALRM
    assert ended.stdout.split() == ["3"]
