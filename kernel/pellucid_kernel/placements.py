"""Request handler of placement figures: computes another placement of the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.introspect.schema import WhatIfRecord
from pellucid_kernel.panels.panel import Handler
from pellucid_viz.placements import placement_record


def _placement(request: Mapping[str, Any]) -> WhatIfRecord:
    axis_sizes = dict(zip(request["axis_names"], request["axis_sizes"], strict=True))
    return placement_record(
        request["figure"], axis_sizes, request["dim_axes"], request["search_under"]
    )


HANDLERS: Mapping[str, Handler] = {"show_placement": _placement}
"""Handlers of requests, by kind of request."""
