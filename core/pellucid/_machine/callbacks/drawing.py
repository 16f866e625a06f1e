"""Text drawings of shardings of one or two dimensions: tables of the parts, labelled with their devices."""

from __future__ import annotations

import colorsys
import os
import sys
import textwrap
from collections.abc import Callable, Sequence

from pellucid._machine.sharding import Sharding
from pellucid._machine.sharding.errors import ShardingArgumentError

ColorMap = Callable[[float], Sequence[float]]
_HEIGHT = 10
"""Number of lines for the array's first dimension, at scale 1."""
_WIDTH_OF_A_LINE = 2.5
"""Ratio of a line's height to a character's width."""
_DARKEST_BACKGROUND_OF_BLACK = 0.73


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Print which devices hold which part of an array of `shape`, which has one or two dimensions.

    Parts are drawn in the array's proportions, `scale` times as large, as far as cells of `min_width` and a whole of
    `max_width` characters allow. Their colours, where the terminal has colours, are what `color_map` gives for
    numbers from 0 to 1: red, green and blue from 0 to 1, as the maps of matplotlib do.

    Raises: ShardingArgumentError for another number of dimensions, and for a mesh without devices.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()[:4]).reshape(2, 2), ("x", "y"))
    >>> visualize_sharding((4, 4), pl.NamedSharding(mesh, pl.P("y", None)), scale=0.2)
    ┌─────────┐
    │ CPU 0,2 │
    ├─────────┤
    │ CPU 1,3 │
    └─────────┘
    """
    check_can_be_drawn("visualize_sharding", tuple(shape))
    if not isinstance(sharding, Sharding) or sharding._internal_device_list is None:
        raise ShardingArgumentError(
            "visualize_sharding needs a sharding over devices.", got=f"sharding: {sharding!r}"
        )
    colored = use_color and _has_colors()
    grid = _labels_by_part(tuple(shape), sharding)
    rows, columns = len(grid), len(grid[0])
    min_width = max(min_width, *(len(label) + 2 for row in grid for label in row))
    least_height, width = _sizes(tuple(shape), rows, columns, scale, min_width, max_width)
    lines = [_border("┌┬┐", columns, width)]
    for i, row in enumerate(grid):
        texts = [_label_lines(label, width - 2) for label in row]
        height = max(least_height, *map(len, texts))
        cells = [_center(text, height, width) for text in texts]
        if colored:
            for j, cell in enumerate(cells):
                share = (i * columns + j) / max(rows * columns - 1, 1)
                cells[j] = [_paint(line, (color_map or _hue)(share)) for line in cell]
        lines += ["│" + "│".join(line) + "│" for line in zip(*cells, strict=True)]
        lines.append(_border("├┼┤" if i < rows - 1 else "└┴┘", columns, width))
    sys.stdout.write("\n".join(lines) + "\n")


def check_can_be_drawn(caller: str, shape: tuple[int, ...]) -> None:
    """Raise ShardingArgumentError for arrays that don't have one or two dimensions."""
    if len(shape) not in (1, 2):
        raise ShardingArgumentError(
            f"{caller} needs an array of one or two dimensions.",
            got=f"shape: {shape}",
            do="`pl.viz.sharding(array)` shows any number of dimensions.",
        )


def _labels_by_part(shape: tuple[int, ...], sharding: Sharding) -> list[list[str]]:
    """For each part, in rows, a label with the devices that hold it: `CPU 0,2`."""
    holders = {}
    for device, index in sharding.devices_indices_map(shape).items():
        starts = tuple([s.indices(size)[0] for s, size in zip(index, shape, strict=True)])
        holders.setdefault((0, *starts)[-2:], []).append(device)
    rows = {}
    for (row, _), devices in sorted(holders.items()):
        ids = ",".join(map(str, sorted(d.id for d in devices)))
        rows.setdefault(row, []).append(f"{devices[0].platform.upper()} {ids}")
    return list(rows.values())


def _sizes(
    shape: tuple[int, ...], rows: int, columns: int, scale: float, min_width: int, max_width: int
) -> tuple[int, int]:
    """(lines, characters) of one part."""
    height = _HEIGHT * scale
    proportion = shape[1] / max(shape[0], 1) if len(shape) == 2 else 1.0
    width = height * proportion * _WIDTH_OF_A_LINE / columns
    most = max((max_width - 1) // columns - 1, 3)
    lines = max(int(height / rows), 1) if len(shape) == 2 else 1
    return lines, min(max(int(width), min_width), most)


def _border(corners: str, columns: int, width: int) -> str:
    left, between, right = corners
    return left + between.join(["─" * width] * columns) + right


def _label_lines(label: str, width: int) -> list[str]:
    """The label, broken into lines after commas if it is too long."""
    if len(label) <= width:
        return [label]
    return [line.replace(", ", ",") for line in textwrap.wrap(label.replace(",", ", "), width)]


def _center(text: list[str], height: int, width: int) -> list[str]:
    above = (height - len(text)) // 2
    lines = [*[""] * above, *text, *[""] * (height - len(text) - above)]
    return [line.center(width) for line in lines]


def _has_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _hue(share: float) -> tuple[float, float, float]:
    """An RGB colour for a number from 0 to 1, all of the same lightness; the last differs from the first."""
    return colorsys.hls_to_rgb(0.85 * share, 0.6, 0.6)


def _paint(text: str, color: Sequence[float]) -> str:
    """`text` in black or white, whichever is more readable on a background of that colour (luma of ITU-R BT.601)."""
    red, green, blue = color[:3]
    is_light = 0.299 * red + 0.587 * green + 0.114 * blue > _DARKEST_BACKGROUND_OF_BLACK
    background = ";".join(str(round(255 * part)) for part in (red, green, blue))
    return f"\x1b[48;2;{background};{30 if is_light else 97}m{text}\x1b[0m"
