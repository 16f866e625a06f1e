"""Programs of other people's libraries run when `import jax` is answered by pellucid, with the losses of the reference."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import compilation
import numpy as np
import pytest
from corpus.example_runs import answer_for_jax, library_losses

FOLDER = Path(__file__).parents[2] / "examples" / "libraries"
RECORDED = Path(__file__).parent / "library_losses.json"
STEPS, TIMEOUT_SECONDS = 12, 300
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


def skip_if_not_installed(path: Path) -> None:
    """Skip the test of a program whose libraries aren't all there; `make test-libraries` has all."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    missing = [name for name in modules - {"jax"} if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")


@contextmanager
def process(flags: str, setup: Callable[[], None] | None = None) -> Iterator[ProcessPoolExecutor]:
    """A process with these XLA_FLAGS that runs `setup` first: pellucid and jax can't share one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("XLA_FLAGS", flags)
        with ProcessPoolExecutor(1, get_context("spawn"), setup) as pool:
            yield pool


@pytest.fixture(scope="module")
def answered_by_pellucid() -> Iterator[ProcessPoolExecutor]:
    """One process for all programs, which import the same libraries.

    It compiles quickly in every part of the tests: as users compile, the programs take twice as long.
    """
    with process(compilation.QUICK, answer_for_jax) as pool:
        yield pool


def losses(pool: ProcessPoolExecutor, name: str) -> list[float]:
    """The losses of a program in that process."""
    program = pool.submit(library_losses, str(FOLDER / f"{name}.py"), STEPS)
    return program.result(TIMEOUT_SECONDS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_the_reference(
    request: pytest.FixtureRequest, answered_by_pellucid: ProcessPoolExecutor, name: str
) -> None:
    skip_if_not_installed(FOLDER / f"{name}.py")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    if name not in recorded and request.config.getoption("--references") != "read":
        with process(flags="") as with_jax:
            recorded[name] = losses(with_jax, name)
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    ours = losses(answered_by_pellucid, name)
    assert ours[-1] < ours[0]
    np.testing.assert_allclose(ours, recorded[name], rtol=1e-4)
