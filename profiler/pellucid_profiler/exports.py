"""Export of sessions to other tools: columns for data frames, stacks for speedscope."""

from __future__ import annotations

import importlib
import json
import os
from collections import defaultdict
from typing import Any

import numpy as np

from pellucid.introspect.errors import UnsupportedError
from pellucid_profiler.files import write_file
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.sources import Share

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def columns(session: SessionTables) -> dict[str, np.ndarray[Any, Any]]:
    """Executed operations as columns of length n: names, lines, devices, and times in nanoseconds.

    `self_ns` of a loop, branch or call excludes the operations within it, so that the column adds up to the session's
    total.
    """
    ops, info = session.operations, session.info_of_operation
    texts = {
        "program": [session.program_name(i) for i in range(len(session.infos))],
        "operation": [each.name for each in session.infos],
        "category": [each.category for each in session.infos],
        "line": session.place_texts_of_infos,
    }
    return {name: np.array(values, np.object_)[info] for name, values in texts.items()} | {
        "device": ops.device,
        "run": ops.run,
        "iteration": ops.iteration,
        "start_ns": ops.start_ns,
        "end_ns": ops.end_ns,
        "self_ns": np.round(session.seconds_of_operation * 1e9).astype(np.int64),
    }


def data_frame(session: SessionTables, package: str, function: str, extra: str) -> Any:
    """`columns(session)` as a data frame, made by `function` of the optional package `package` (installed as `extra`).

    Raises: UnsupportedError if the package is not installed.
    """
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise UnsupportedError(
            f"a session can't become a table of {extra}: it is not installed.",
            do=f"Install it: pip install {extra}.",
        ) from error
    # Every data frame package takes a list of strings as text; some reject object arrays.
    texts_as_lists = {
        name: values.tolist() if values.dtype == np.object_ else values
        for name, values in columns(session).items()
    }
    return getattr(module, function)(texts_as_lists)


def speedscope(session: SessionTables) -> dict[str, Any]:
    """Time by scope, operation and line as stacks, in speedscope's file format (version 0.0.1, "sampled")."""
    frames: dict[tuple[Any, ...], int] = {}

    def frame(name: str, *place: Any) -> int:
        return frames.setdefault((name, *place), len(frames))

    def stack(share: Share | None, instruction: str) -> tuple[int, ...]:
        if share is None:
            return (frame("(no scope)"), frame(instruction))
        scopes = [frame(each) for each in share.scope.partition(";")[0].split("/") if each]
        place = () if share.place is None else (share.place.file, share.place.line)
        return (*scopes, frame(share.operation or instruction, *place))

    weights: dict[tuple[int, ...], float] = defaultdict(float)
    for info, seconds in zip(session.infos, session.seconds_of_infos, strict=True):
        for share in info.shares or [None]:
            part = 1.0 if share is None else share.share
            weights[stack(share, info.label)] += float(seconds) * part
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "shared": {
            "frames": [
                {"name": name} | dict(zip(("file", "line"), place, strict=False))
                for name, *place in frames
            ]
        },
        "profiles": [
            {
                "type": "sampled",
                "name": "operations by scope",
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(weights.values()),
                "samples": [list(each) for each in weights],
                "weights": list(weights.values()),
            }
        ],
        "name": "pellucid",
        "exporter": "pellucid",
    }


def save_speedscope(session: SessionTables, path: str | os.PathLike[str]) -> None:
    """Writes `speedscope(session)` to a file, which https://www.speedscope.app opens."""
    write_file(path, json.dumps(speedscope(session)).encode())
