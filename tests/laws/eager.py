"""Results of rows computed one primitive at a time."""

from __future__ import annotations

import functools
from typing import Any

from pellucid.base import config
from tests.laws.sample import Sample


@functools.cache
def eager_results(sample: Sample) -> list[Any]:
    """Results of the row, each primitive run by itself."""
    with config.enable_x64(sample.needs_x64):
        return sample.function(*sample.arguments)
