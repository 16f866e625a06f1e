from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from pellucid._machine.sharding.errors import LayoutError, ShardingArgumentError
from pellucid._machine.sharding.layout import AUTO, Format, Layout
from pellucid._machine.sharding.mesh import Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.xla.shardings import XlaLayout


class PjrtLayout:
    """A layout as an executable reports it; Python can't make one."""

    def __init__(self, layout: XlaLayout) -> None:
        self.layout = layout

    def _xla_layout(self) -> XlaLayout:
        return self.layout


def test_a_layout_goes_to_the_compiler_and_back() -> None:
    for layout in (
        Layout((), ()),
        Layout((0, 1), ()),
        Layout((1, 0, 2), ((8, 128), (2, 1))),
        Layout((1, 0), (), 4),
    ):
        there = layout._to_xla_layout(np.dtype(np.float32))
        assert Layout.from_pjrt_layout(PjrtLayout(there)) == layout  # type: ignore[arg-type]


def test_layouts_are_values() -> None:
    assert Layout([1, 0]) == Layout((1, 0))
    assert hash(Layout([1, 0])) == hash(Layout((1, 0)))
    assert Layout((1, 0), [[8, 128]]).tiling == ((8, 128),)
    assert not isinstance(Layout((0,)), tuple), "else trees of shardings would look into it"
    assert pickle.loads(pickle.dumps(Layout((1, 0)))) == Layout((1, 0))
    assert pickle.loads(pickle.dumps(Layout.AUTO)) is AUTO


def test_a_format_holds_both(mesh: Mesh) -> None:
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    both = Format(Layout((0, 1)), sharding)
    assert (both.layout, both.sharding) == (Layout((0, 1)), sharding)
    assert both == Format(Layout((0, 1)), sharding)
    assert hash(both) == hash(Format(Layout((0, 1)), sharding))
    assert not isinstance(both, tuple)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Layout((0, 2)), LayoutError, "each dimension once"),
        (lambda: Layout((0, 0)), LayoutError, "each dimension once"),
        (lambda: Layout((0, 1)).check_compatible_aval((3,)), LayoutError, "2 dimensions"),
        (lambda: Layout((0, 1)).update(order=(1, 0)), ShardingArgumentError, "'order'"),
        (lambda: Format(Layout((0, 1))), LayoutError, "needs a sharding"),
        (lambda: Format(3), ShardingArgumentError, "`layout` must be a Layout"),
        (lambda: Format(None, 3), ShardingArgumentError, "`sharding` must be a Sharding"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make()
