"""The texts of errors, as `tests/messages/parallel.md` shows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from message_page import Page

import pellucid as pl
from pellucid.sharding import Mesh

page = Page("parallel.md")
NAMES = ("NamedSharding", "P", "device_put", "lax", "make_mesh", "pmap", "shard_map", "vmap")


@pytest.mark.parametrize(("code", "text"), page.examples, ids=page.names)
def test_the_message_is_as_shown(code: str, text: str) -> None:
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))
    spec = pl.P("x")

    def sm(body: Any, **options: Any) -> Any:
        return pl.shard_map(body, **{"mesh": mesh, "in_specs": spec, "out_specs": spec, **options})

    names = {name: getattr(pl, name) for name in NAMES}
    names |= {
        "np": np,
        "jnp": pl.numpy,
        "mesh": mesh,
        "sm": sm,
        "x": np.arange(8, dtype=np.float32),
    }
    page.check(code, text, names)
