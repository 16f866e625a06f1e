"""The texts of errors, as `tests/messages/devices.md` shows them."""

from __future__ import annotations

import numpy as np
import pytest
from message_page import Page

import pellucid as pl
import pellucid.lax
from pellucid.experimental.layout import Format, Layout
from pellucid.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    set_mesh,
)

PAGE = Page("devices.md")


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=PAGE.names)
def test_the_message_is_as_shown(code: str, text: str) -> None:
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))
    names = {
        "pl": pl,
        "np": np,
        "P": PartitionSpec,
        "NamedSharding": NamedSharding,
        "AbstractMesh": AbstractMesh,
        "Mesh": Mesh,
        "Format": Format,
        "Layout": Layout,
        "set_mesh": set_mesh,
        "mesh": mesh,
        "explicit": mesh.update(axis_types=(AxisType.Explicit,) * 2),
        "x": np.ones((8, 4), np.float32),
    }
    PAGE.check(code, text, names)
