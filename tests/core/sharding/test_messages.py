"""The texts of errors, as `tests/messages/sharding.md` shows them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid.sharding
from pellucid import lax
from pellucid._machine.base.errors import PellucidError
from pellucid._machine.sharding import explicit_types, layout, topology
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType, Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec

PAGE = Path(__file__).parents[2] / "messages" / "sharding.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)\n```\n\n```text\n(?P<text>.*?)\n```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE.read_text())


def typed(function: Any, *operands: Any) -> Any:
    """The type of what `function` gives for operands of these types."""
    return pellucid.eval_shape(function, *operands)


def value(shape: tuple[int, ...], *entries: Any, **marks: Any) -> Any:
    """A value with this spec over the mesh `explicit`."""
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    spec = PartitionSpec(*entries, **marks)
    return pellucid.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, spec))


@pytest.fixture
def text_of(mesh: Mesh, explicit_mesh: Mesh, devices: list[Any]) -> Any:
    names = {
        **vars(pellucid.sharding),
        **vars(explicit_types),
        **vars(topology),
        **vars(layout),
        "P": PartitionSpec,
        "np": np,
        "lax": lax,
        "typed": typed,
        "value": value,
        "mesh": mesh,
        "explicit_mesh": explicit_mesh,
        "explicit": AbstractMesh((4, 2), ("x", "y"), explicit_mesh.axis_types),
        "devices": devices,
    }

    def text(code: str) -> str:
        with pytest.raises(PellucidError) as raised:
            eval(code, names)
        return f"{type(raised.value).__name__}: {raised.value}"

    return text


@pytest.mark.skipif("REWRITE_MESSAGES" in os.environ, reason="the texts are being rewritten")
@pytest.mark.parametrize(("code", "text"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_the_message_is_as_shown(code: str, text: str, text_of: Any) -> None:
    assert text_of(code) == text
    first, *rest = text.split(": ", 1)[1].splitlines()
    assert len(first) <= 100
    assert len(rest) <= 5
    assert not re.search(r"\b(aval|jaxpr|tracer)\b", text)


@pytest.mark.skipif("REWRITE_MESSAGES" not in os.environ, reason="only to rewrite the texts")
def test_rewrite_messages(text_of: Any) -> None:
    def rewritten(example: re.Match[str]) -> str:
        code = example["code"]
        return f"```python\n{code}\n```\n\n```text\n{text_of(code)}\n```"

    PAGE.write_text(EXAMPLE.sub(rewritten, PAGE.read_text()))
