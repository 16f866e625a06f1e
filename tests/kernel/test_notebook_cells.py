"""No magic and no watch changes whether a cell of the notebooks succeeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from debugged_kernel import DebuggedKernel
from running_kernel import SECONDS, kernel

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LINES = "%pellucid\n%pellucid memory\n%pellucid misses\n%pellucid devices\n%pellucid processes\n%pellucid figures static\n%pellucid traceback\n%pellucid as_jax"
WATCHES = ["isnan", "x.ndim > 9"]


def cells_of(path: Path) -> Iterator[str]:
    """The code of a notebook, which as it stands runs without an error: `tests/notebooks`."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def _no_errors(message: dict[str, Any]) -> None:
    assert message["msg_type"] != "error", message["content"]


@pytest.mark.rotates
@pytest.mark.parametrize("magic", ["%%profile", "%%profile -r 1"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_with_magics_succeed(path: Path, magic: str) -> None:
    with kernel() as (_, client):
        for cell in cells_of(path):
            for code in (f"{magic}\n{cell}", LINES):
                reply = client.execute_interactive(code, timeout=SECONDS, output_hook=_no_errors)
                assert reply["content"]["status"] == "ok", (code, reply["content"])


@pytest.mark.rotates
@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_watched_cells_succeed(path: Path, watch: str) -> None:
    with kernel() as (_, client):
        debugged = DebuggedKernel(client)
        debugged.start()
        debugged.body("pellucid/watch", condition=watch)
        for cell in cells_of(path):
            assert debugged.through(cell) == "ok", (cell, debugged.text)
