"""Programs of other people's libraries run when `import jax` is answered by pellucid, with the losses of the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "libraries"
RECORDED = Path(__file__).parent / "library_losses.json"
STEPS = 12
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
RUN = """
import json, runpy, sys
print(json.dumps(runpy.run_path(sys.argv[1])["main"](int(sys.argv[2]))))
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: pellucid and jax can't share one, nor can two who answer for jax."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=300, check=False, env=environment,
    )  # fmt: skip


def losses(name: str, setup: str) -> list[float]:
    """The losses of a program after the lines `setup`."""
    process = run(setup + RUN, str(FOLDER / f"{name}.py"), str(STEPS))
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.rotates
@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_the_reference(request: pytest.FixtureRequest, name: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    if name not in recorded and request.config.getoption("--references") != "read":
        recorded[name] = losses(name, "")  # with jax
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    ours = losses(name, "import pellucid.as_jax; pellucid.as_jax.install()")
    assert ours[-1] < ours[0]
    np.testing.assert_allclose(ours, recorded[name], rtol=1e-4)
