"""The texts of a kernel after each of the passes of TPUs' compiler, in a process of its own: a compiler may end it, or never end, and keeps its settings."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .compile import compile_only, compile_options
from .mlir import bytecode, ir, new_context
from .plugins import PluginMissingError, topology_devices, tpu_library

_SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_STDERR_LOG_LEVEL": "3",
}
_INTERVAL_SECONDS = 0.1
_FILE = re.compile(r"\d+-(\d+)-mosaic-dump-.*?-((?:post-.*)|original)\.txt")


class PassText(NamedTuple):
    """The module after a pass, in Mosaic's text with locations."""

    name: str
    """Of the pass; `original` before the first."""
    text: str


class PassesFailedError(RuntimeError):
    """The compiler refuses a kernel, or doesn't end. `passes` are the texts up to there."""

    def __init__(self, text: str, passes: list[PassText]) -> None:
        super().__init__(text)
        self.passes = passes


def tpu_passes(
    module: ir.Module,
    topology: str,
    seconds: float,
    report: Callable[[str, float], object] = lambda name, seconds: None,
) -> list[PassText]:
    """The one kernel of a module after each pass of TPUs' compiler, for a chip of a topology. No TPU is needed.

    `report` is called with the latest pass and the seconds until then. Raises: PluginMissingError without the compiler;
    PassesFailedError if it refuses the kernel, ends, or takes longer than `seconds`. An interrupt ends the process, too.
    """
    if tpu_library() is None:
        raise PluginMissingError(
            "no compiler of TPUs is installed (pip install 'pellucid[tpu-aot]')"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, log = pathlib.Path(folder, "module"), pathlib.Path(folder, "log")
        texts = pathlib.Path(folder, "texts")
        texts.mkdir()
        source.write_bytes(bytecode(module))
        flags = f"--xla_mosaic_dump_to={texts} --xla_mosaic_enable_dump_debug_info=true"
        given = os.environ.get("LIBTPU_INIT_ARGS", "")
        own = {
            "LIBTPU_INIT_ARGS": f"{given} {flags}".strip(),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        begun = time.monotonic()
        with log.open("wb") as stream:
            process = subprocess.Popen(  # noqa: S603  # this module, by this Python
                [sys.executable, "-m", __name__, str(source), topology],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **_SETTINGS, **own},
            )
            try:
                while process.poll() is None and time.monotonic() - begun < seconds:
                    time.sleep(_INTERVAL_SECONDS)
                    names = [name for _, name in _files(texts)]
                    report(names[-1] if names else "starts", time.monotonic() - begun)
            finally:
                ended = process.poll()
                if ended is None:
                    process.kill()
                    process.wait()
        found = [PassText(name, path.read_text("utf-8")) for path, name in _files(texts)]
        if ended is None:
            raise PassesFailedError(f"the compiler hasn't ended after {seconds:g} seconds", found)
        if ended:
            raise PassesFailedError(_reason(log.read_text("utf-8", "replace")), found)
        return found


def _files(folder: pathlib.Path) -> list[tuple[pathlib.Path, str]]:
    """(file, name of the pass) in the order of the passes; what is only read and printed again is left out."""
    found: list[tuple[int, pathlib.Path, str]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            match = _FILE.fullmatch(path.name)
            if match is not None and "deserialization" not in match[2]:
                found.append((int(match[1]), path, match[2].removeprefix("post-")))
    return [(path, name) for _, path, name in sorted(found)]


def _reason(log: str) -> str:
    """What the compiler says of a kernel that it refuses."""
    lines = log.strip().splitlines()
    first = next((i for i, each in enumerate(lines) if "JaxRuntimeError" in each), None)
    if first is None:
        return lines[-1][:400] if lines else "the compiler has ended its process"
    return " ".join(" ".join(lines[first : first + 4]).split("JaxRuntimeError: ", 1)[-1].split())[
        :600
    ]


def _main(source: str, topology: str) -> None:
    """Compile the module of a file; the compiler writes its texts."""
    devices: list[Any] = topology_devices("tpu", topology, {})[:1]
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(pathlib.Path(source).read_bytes())
        compile_only(module, devices, compile_options(devices, is_partitioned=False))


if __name__ == "__main__":
    _main(*sys.argv[1:])
