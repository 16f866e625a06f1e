"""`Layout` and `Format`: order and tiling of a value's elements in memory."""

# Arguments of users are checked, also where annotations exclude other types; C++ has the layout under a private name.
# pyright: reportUnnecessaryIsInstance=false, reportPrivateUsage=false

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid._machine.base import Axes, Shape
from pellucid._machine.xla.shardings import DeviceLayout, XlaLayout

from .errors import LayoutError, ShardingArgumentError, updated_fields
from .placement import Sharding

if TYPE_CHECKING:
    import numpy as np


class AutoLayout:
    """The type of `Layout.AUTO`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"


AUTO = AutoLayout()
"""Lets the compiler choose the layout."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The order of dimensions in memory, slowest first, and the tiles that elements are grouped in.

    `tiling` None means the device's own; `sub_byte_element_size_in_bits` 0 means whole bytes.
    `Layout.AUTO` leaves all of it to the compiler.

    Raises: LayoutError if `major_to_minor` is no order of the dimensions 0 to n-1.

    >>> Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO: ClassVar[AutoLayout] = AUTO

    major_to_minor: Axes
    tiling: tuple[Shape, ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __reduce__(self) -> Any:
        return Layout, (self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores pickles of JAX, which store the state only."""
        self.__init__(**state)

    def __post_init__(self) -> None:
        order = tuple(self.major_to_minor)
        if set(order) != set(range(len(order))):
            raise LayoutError(
                "Layout: `major_to_minor` must list each dimension once, slowest first.",
                got=f"major_to_minor={order}",
                do=f"Write an order of {tuple(range(len(order)))}.",
            )
        object.__setattr__(self, "major_to_minor", order)
        if self.tiling is not None:
            object.__setattr__(self, "tiling", tuple(map(tuple, self.tiling)))

    @staticmethod
    def from_pjrt_layout(pjrt_layout: DeviceLayout) -> Layout:
        """The layout that an executable reports for an operand or result."""
        layout = pjrt_layout._xla_layout()
        return Layout(
            tuple(reversed(layout.minor_to_major())),
            tuple(layout.tiling()),
            layout.element_size_in_bits(),
        )

    def update(self, **kwargs: Any) -> Layout:
        """This layout with some fields replaced.

        >>> Layout((0, 1)).update(major_to_minor=(1, 0)).major_to_minor
        (1, 0)
        """
        return Layout(**updated_fields("Layout.update", dataclasses.asdict(self), kwargs))

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises LayoutError if a value of this shape has another number of dimensions."""
        if len(self.major_to_minor) != len(aval_shape):
            raise LayoutError(
                f"a layout of {len(self.major_to_minor)} dimensions can't be that of a value of "
                f"{len(aval_shape)}.",
                got=[f"{self}", f"shape {aval_shape}"],
            )

    def _to_xla_layout(self, dtype: np.dtype[Any]) -> XlaLayout:
        return XlaLayout(
            self.major_to_minor[::-1], self.tiling or (), self.sub_byte_element_size_in_bits
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A layout together with a sharding.

    None leaves either unspecified; `Layout.AUTO` lets the compiler choose the layout.

    Raises: LayoutError if a layout is given without devices that could have it; ShardingArgumentError for
    anything that is no layout or no sharding.

    >>> Format(Layout.AUTO)
    Format(layout=AUTO, sharding=None)
    """

    layout: Layout | AutoLayout | None = None
    sharding: Sharding | None = None

    def __post_init__(self) -> None:
        layout, sharding = self.layout, self.sharding
        if layout is not None and not isinstance(layout, (Layout, AutoLayout)):
            raise ShardingArgumentError(
                "Format: `layout` must be a Layout, Layout.AUTO or None.",
                got=f"layout: {type(layout).__name__}",
            )
        if sharding is not None and not isinstance(sharding, Sharding):
            raise ShardingArgumentError(
                "Format: `sharding` must be a Sharding or None.",
                got=f"sharding: {type(sharding).__name__}",
                do="Use NamedSharding(mesh, spec) or SingleDeviceSharding(device).",
            )
        if isinstance(layout, Layout) and sharding is None:
            raise LayoutError(
                "Format: a layout needs a sharding, because devices differ in the layouts they have.",
                got=f"{layout}",
                do="Give `sharding` too.",
            )
