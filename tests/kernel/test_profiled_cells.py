"""`%%profile` changes neither whether a cell succeeds nor what it raises, and shows an error once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.running_kernel import SECONDS, kernel, run

IMPORTS = "import pellucid as pl, pellucid.numpy as jnp, numpy as np\nfrom pellucid import lax"
STEP = "def step(x):\n    y = jnp.sin(x) * x\n    return (y @ y).sum()\n"
"""Begin of a cell that runs a function in several ways."""

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
CELLS = {
    "eager": ("", f"{STEP}step(jnp.ones(3))"),
    "jit": ("", f"{STEP}pl.jit(step)(jnp.ones(3))"),
    "grad": ("", f"{STEP}pl.jit(pl.grad(step))(jnp.ones(3))"),
    "vmap": ("", f"{STEP}pl.vmap(step)(jnp.ones((2, 3)))"),
    "loop": ("", "for i in range(30):\n    y = pl.jit(lambda x: x + i)(1.0)"),
    "cannot run twice": ("stack = [1.0]", "y = pl.jit(lambda x: jnp.sin(x) + 1)(stack.pop())"),
    "deletes": ("z = 3.0", "y = pl.jit(lambda x: jnp.cos(x) + 2)(z)\ndel z"),
    "await": ("import asyncio", "await asyncio.sleep(0.001)\ny = jnp.sin(1.0)"),
    "magic of a cell": ("", "%%time\ny = jnp.sin(2.0)"),
    "magic of a line": ("", "%time y = jnp.sin(2.0)"),
    "session of its own": ("", "with pl.profiler.profile() as own:\n    jnp.sin(1.0)\nown.wait()"),
    "begins a session": ("", "_ = pl.profiler.start()"),
    "session around it": ("", "y = jnp.sin(1.0)"),
    "ends a session": ("_ = pl.profiler.start()", "_ = pl.profiler.stop()"),
    "raises": ("", "jnp.sin(1.0)\n1 / 0"),
    "raises of ours": ("", "pl.jit(lambda x: float(x))(1.0)"),
    "syntax": ("", "def f(:\n    pass"),
    "exit": ("", "raise SystemExit"),
    "interrupt": ("", "raise KeyboardInterrupt"),
    "trace that fails": ("", "pl.jit(lambda x: undefined_name)(1.0)"),
}
"""(what runs before, cell) by name."""


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingKernelClient]:
    with kernel() as (_, client):
        run(client, IMPORTS)
        yield client


def outcome(client: BlockingKernelClient, code: str) -> tuple[str, str | None, int]:
    """(status of a cell, name of what it raises, number of errors that are shown)."""
    shown = []

    def note(message: dict[str, Any]) -> None:
        if message["msg_type"] == "error":
            shown.append(message["content"]["ename"])

    reply = client.execute_interactive(
        code, output_hook=note, timeout=SECONDS, stop_on_error=False, silent=False
    )["content"]
    return reply["status"], reply.get("ename"), len(shown)


@pytest.mark.parametrize("name", CELLS)
def test_a_profiled_cell_ends_as_it_does_without(client: BlockingKernelClient, name: str) -> None:
    setup, cell = CELLS[name]
    ended = []
    for magic in ("", "%%profile\n", "%%profile -r 1\n"):
        run(client, setup)
        ended.append(outcome(client, magic + cell))
        if name == "begins a session" or (name == "ends a session" and ended[-1][0] == "error"):
            run(client, "_ = pl.profiler.stop()")
    assert ended[0] == ended[1] == ended[2]


@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_profiled_example_ends_as_it_does_without(
    client: BlockingKernelClient, path: Path
) -> None:
    source = path.read_text(encoding="utf-8").partition('if __name__ == "__main__":')[0]
    run(client, source)
    assert outcome(client, "before = main(2)") == ("ok", None, 0)
    assert outcome(client, "%%profile -r 1\nprofiled = main(2)") == ("ok", None, 0)
    assert run(client, "print(before == profiled)")["stdout"].strip() == "True"


@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_answering_for_jax_between_cells_changes_nothing(path: Path) -> None:
    source = path.read_text(encoding="utf-8").partition('if __name__ == "__main__":')[0]
    # Examples define names of their own: `after` is one.
    with kernel() as (_, client):
        run(client, source)
        assert outcome(client, "before_it = main(2)") == ("ok", None, 0)
        assert outcome(client, "%pellucid as_jax") == ("ok", None, 0)
        assert outcome(client, "after_it = main(2)") == ("ok", None, 0)
        assert outcome(client, source.replace("pellucid", "jax")) == ("ok", None, 0)
        assert outcome(client, "as_jax = main(2)") == ("ok", None, 0)
        assert run(client, "print(before_it == after_it == as_jax)")["stdout"].strip() == "True"


def test_a_cell_that_cannot_run_twice_has_the_profile_of_its_first_run(
    client: BlockingKernelClient,
) -> None:
    run(client, "stack = [1.0]")
    outputs = run(client, "%%profile\ny = pl.jit(lambda x: jnp.tanh(x) + 1)(stack.pop())")
    assert "The cell can't run twice: IndexError: pop from empty list" in outputs["stderr"]
    assert "error" not in outputs
    assert "Profile" in outputs["result"] or "ms" in outputs["result"]
