"""Choosing the settings of a kernel, such as sizes of blocks: by measuring, or for devices that aren't there by what its grid moves, and on
TPUs by a modelled time.

Results are kept beside compiled programs (`compilation_cache_dir`), under everything that they depend on: the programs of all candidates,
the kind of device, the release of jaxlib.
"""

from __future__ import annotations

import functools
import hashlib
import html
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pellucid
from pellucid._machine.base import (
    ArgumentValueError,
    Function,
    UnsupportedError,
    by_tool,
    public_functions,
    tree_leaves,
)
from pellucid._machine.compilation import disk_cache
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.tracing import name_of, type_of
from pellucid._machine.transforms import check_callable
from pellucid._machine.xla import GPU_TARGETS
from pellucid._machine.xla.compile import jaxlib_version
from pellucid._machine.xla.plugins import cuda_plugin
from pellucid._machine.xla.ptxas import ptxas
from pellucid.analysis.kernel_grids import kernel_grids
from pellucid.analysis.machines import MACHINES
from pellucid.analysis.tpu_times import moves_of, names_in_slow_memory, pipelines_of, tpu_time
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.mosaic_gpu_text import mosaic_gpu_text
from pellucid.introspect.schema import GridKernelRecord
from pellucid.introspect.triton_text import triton_text
from pellucid.kernels.gpu.params import CompilerParams as MosaicGpuParams
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.mosaic_tpu.module import lowered
from pellucid.kernels.targets import TPU_CHIPS
from pellucid.kernels.triton.language import CompilerParams as TritonParams

_BUFFERS = 2
"""Copies of a block that a pipeline has: one is computed with while the next one comes."""
_VMEM_BYTES = 16 << 20
"""What TPUs' compiler lets a kernel have of their memory for blocks, unless it is told otherwise."""
_LEAST_SECONDS = 1e-3
"""A measurement is repeated within a round until it takes as long, so that the clock's steps don't count."""
_HOPPER = (9, 0)
_SUFFIX = ".tuning"
_RANKING = 3
"""Version of how candidates are ranked where nothing is measured; earlier results don't count."""


@dataclass(frozen=True)
class Candidate:
    """One choice of settings, and what is known of it."""

    settings: dict[str, Any]
    seconds: float | None = None
    """The median of a call's time over the rounds; None where it wasn't measured."""
    spread: float | None = None
    """Half of the distance of the quartiles, in seconds."""
    moved_bytes: int | None = None
    """What the grid moves between arrays and blocks; None where data choose the blocks."""
    fetches: int | None = None
    """Moves of blocks, in both directions."""
    footprint: int | None = None
    """Bytes of blocks, twice each, and of scratch, of the largest kernel."""
    failure: str = ""
    """Why it can't be used; empty if it can."""
    modelled_seconds: float | None = None
    """On a TPU the time of its kernels, by `pellucid.analysis.tpu_times`; None where data choose the blocks."""
    matrix_unit_use: float | None = None
    """On a TPU the share of the matrix unit that its products use, the rest being the padding of tiles; None without products."""
    tile_use: float | None = None
    """On a TPU the share of what is moved that isn't padding of tiles."""
    occupancy: float | None = None
    """On a GPU the warps of its kernels that a multiprocessor holds at once, as a share of those that it could; None where nothing installed compiles them."""


@dataclass(frozen=True)
class Tuning:
    """The candidates of a search, the best one first, and where they were compared.

    `best` are the settings to use.
    """

    name: str
    candidates: tuple[Candidate, ...]
    device: str
    """The kind of device that was measured, or the target."""
    is_measured: bool
    operands: tuple[str, ...]
    program: str
    """A digest of the programs of all candidates."""
    jaxlib: str
    is_from_disk: bool = False

    @property
    def best(self) -> dict[str, Any]:
        """The settings of the best candidate, as keyword arguments."""
        return dict(self.candidates[0].settings)

    def _table(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for c in self.candidates for name in c.settings))
        figures = ["time", "±"] if self.is_measured else ["moved", "fetches", "footprint"]
        is_modelled = any(c.modelled_seconds is not None for c in self.candidates)
        if is_modelled:
            figures = ["modelled", "MXU", "tiles", *figures]
        has_occupancy = any(c.occupancy is not None for c in self.candidates)
        if has_occupancy:
            figures.append("occupancy")
        rows = [[*names, *figures, ""]]
        for each in self.candidates:
            known = [_text(each.settings[name]) if name in each.settings else "" for name in names]
            if self.is_measured:
                known += [_seconds(each.seconds), _seconds(each.spread)]
            else:
                fetches = "" if each.fetches is None else f"{each.fetches:,}"
                if is_modelled:
                    shares = [each.matrix_unit_use, each.tile_use]
                    known += [_seconds(each.modelled_seconds), *map(_percent, shares)]
                known += [_bytes(each.moved_bytes), fetches, _bytes(each.footprint)]
                known += [_percent(each.occupancy)] * has_occupancy
            rows.append([*known, each.failure])
        return rows

    def _title(self) -> str:
        how = "measured on" if self.is_measured else "ranked for"
        kept = ", kept from before" if self.is_from_disk else ""
        return f"{self.name} of {', '.join(self.operands)}: {how} {self.device}, jaxlib {self.jaxlib}{kept}"

    def __repr__(self) -> str:
        rows = self._table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join([cell.ljust(n) for cell, n in zip(row, widths, strict=True)]).rstrip()
            for row in rows
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        line = lambda cells, tag: (
            "<tr>" + "".join([f"<{tag}>{html.escape(c)}</{tag}>" for c in cells]) + "</tr>"
        )
        body = "".join([line(row, "td") for row in rows])
        return f"<table><caption>{html.escape(self._title())}</caption><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _text(x: Any) -> str:
    return name_of(x) if callable(x) and hasattr(x, "__name__") else str(x)


def _seconds(x: float | None) -> str:
    if x is None:
        return ""
    return f"{x:.3g} s" if x >= 1 else f"{1e3 * x:.3g} ms" if x >= 1e-3 else f"{1e6 * x:.3g} µs"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"


def _bytes(n: int | None) -> str:
    if n is None:
        return ""
    power = 0 if n < 1024 else min(int(math.log(n, 1024)), 4)
    return f"{n / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


class _Program(NamedTuple):
    """A candidate with its function of arrays, and the text of its program; None if it failed before."""

    candidate: Candidate
    function: Function
    lowered: Any
    text: str


def tune(
    kernel: Function,
    space: Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]],
    *,
    target: str | None = None,
    rounds: int = 7,
    keep: bool = True,
) -> Callable[..., Tuning]:
    """A function of arrays that compares settings of `kernel`, which takes them as keyword arguments, and gives a `Tuning`.

    `space`: for each setting its values, of which all combinations are candidates; or a list of candidates. Each is compiled, and run once; then, in `rounds` rounds,
    all run one after another, so that what else the machine does meets all of them. The median of a candidate's times counts.

    With a `target` that isn't this machine's device nothing runs: candidates are ordered by the bytes that their grids move, then by occupancy where it is known, the number of moves, and
    their footprint. Arguments may then be ShapeDtypeStructs. A target is a GPU ("A100", "H100", "H200"), whose candidates with `triton.CompilerParams` or `mosaic_gpu.CompilerParams` must be what
    Triton, or Mosaic for Hopper, takes; where a compiler and `ptxas` are installed they are compiled, which tells their occupancy; or a TPU ("v4",
    "v5e", "v5p", "v6e", "tpu7x"; "TPU" is a v5e), whose candidates must be what Mosaic takes, with a footprint within 16 MiB or what `vmem_limit_bytes` states. On a TPU candidates are
    ordered by a modelled time: moves of blocks in whole tiles, passes of the matrix unit, elements of the vector unit, and the overhead of each program; pipelines (`emit_pipeline`) as grids of their own.

    A candidate that fails is a row with its reason. With `keep` results are read from and written to the folder of compiled programs, if there is one; they count only for the same
    programs, kind of device and jaxlib.

    Raises: ArgumentValueError for a space without candidates, for an unknown target, and where all candidates fail.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x, block):
    ...     def kernel(x_ref, o_ref):
    ...         o_ref[...] = x_ref[...] * 2
    ...     spec = BlockSpec((block,), lambda i: (i,))
    ...     return pallas_call(kernel, x, grid=-(-x.size // block), in_specs=[spec], out_specs=spec)(x)
    >>> x = np.ones(64, np.float32)
    >>> found = tune(double, {"block": [16, 64, 128]}, rounds=3)(x)
    >>> sorted(c.settings["block"] for c in found.candidates), found.best["block"] in (16, 64, 128)
    ([16, 64, 128], True)
    >>> tune(double, {"block": [128, 512]}, target="v5e")(np.ones(1024, np.float32))
    double of f32[1024]: ranked for v5e, jaxlib ...
    block  modelled  MXU  tiles  moved  fetches  footprint
    512    0.71 µs        100 %  8 KiB  4        8 KiB
    128    2.81 µs        100 %  8 KiB  16       2 KiB
    """
    check_callable(kernel, "pallas.tune")
    if isinstance(space, Mapping):
        combinations = itertools.product(*[list(values) for values in space.values()])
        settings = [dict(zip(space, values, strict=True)) for values in combinations]
    else:
        settings = [dict(each) for each in space]
    if not settings:
        raise ArgumentValueError("pallas.tune needs a candidate.", got=f"space {space!r:.60}")
    if target is not None and target not in (*MACHINES, *TPU_CHIPS, "TPU"):
        raise ArgumentValueError(
            "pallas.tune: `target` isn't known.",
            got=f"got {target!r}",
            do=f"Known are {', '.join((*MACHINES, *TPU_CHIPS))}, TPU.",
        )
    if rounds < 1:
        raise ArgumentValueError("pallas.tune: `rounds` must be positive.", got=f"got {rounds}")

    def run(*args: Any) -> Tuning:
        return _tuned(kernel, settings, target, rounds, args, keep=keep)

    return run


@by_tool
def _tuned(
    kernel: Function,
    settings: list[dict[str, Any]],
    target: str | None,
    rounds: int,
    args: tuple[Any, ...],
    *,
    keep: bool,
) -> Tuning:
    programs = [_program(kernel, each, args) for each in settings]
    device = target or pellucid.devices()[0].device_kind
    # A candidate that can't be lowered for this machine may be for the target, which `_ranked` asks.
    digest = hashlib.sha256(
        "\n\n".join([repr(p.candidate.settings) + p.text for p in programs]).encode()
    ).hexdigest()
    operands = tuple([type_of(x).text() for x in tree_leaves(args)])
    tuning = Tuning(name_of(kernel), (), device, target is None, operands, digest, jaxlib_version)
    path = _file(tuning) if keep else None
    kept = _read(path, tuning, settings)
    if kept is not None:
        return kept
    found = (
        [_ranked(p, args, target) for p in programs]
        if target
        else _measured(programs, args, rounds)
    )
    order = _by_moves if target else _by_seconds
    tuning = replace(tuning, candidates=tuple(sorted(found, key=order)))
    if tuning.candidates[0].failure:
        raise ArgumentValueError(
            f"pallas.tune: none of {len(found)} candidates of `{tuning.name}` can be used.",
            got=[f"{c.settings}: {c.failure}" for c in tuning.candidates[:3]],
        )
    _write(path, tuning, settings)
    return tuning


def _by_seconds(each: Candidate) -> Any:
    return bool(each.failure), each.seconds or 0.0


def _by_moves(each: Candidate) -> Any:
    moved = (math.inf if each.moved_bytes is None else each.moved_bytes, each.fetches or 0)
    seconds = math.inf if each.modelled_seconds is None else each.modelled_seconds
    bytes_moved, fetches = moved
    return (
        bool(each.failure),
        seconds,
        bytes_moved,
        -(each.occupancy or 0.0),
        fetches,
        each.footprint or 0,
    )


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"


def _program(kernel: Function, settings: dict[str, Any], args: tuple[Any, ...]) -> _Program:
    def function(*args: Any) -> Any:
        return kernel(*args, **settings)

    function.__name__ = function.__qualname__ = name_of(kernel)
    candidate = Candidate(settings)
    try:
        lowered = jit(function).lower(*args)
        return _Program(candidate, function, lowered, lowered.as_text())
    except Exception as error:  # what a kernel raises is a row
        failed = replace(candidate, failure=_reason(error))
        return _Program(failed, function, None, failed.failure)


# Measuring ------------------------------------------------------------------------------------------------------


def _measured(programs: list[_Program], args: tuple[Any, ...], rounds: int) -> list[Candidate]:
    """The candidates with their times, in the order of `programs`."""
    found = [p.candidate for p in programs]
    calls: dict[int, tuple[Callable[..., Any], int]] = {}
    for i, program in enumerate(programs):
        if program.lowered is None:
            continue
        try:
            compiled = program.lowered.compile()
            _seconds_of(compiled, args, 1)  # what the first call alone does
            once = _seconds_of(compiled, args, 1)
        except Exception as error:  # what a kernel raises is a row
            found[i] = replace(found[i], failure=_reason(error))
            continue
        calls[i] = compiled, max(1, math.ceil(_LEAST_SECONDS / max(once, 1e-7)))
    times: dict[int, list[float]] = {i: [] for i in calls}
    for _ in range(rounds):
        for i, (compiled, count) in calls.items():
            times[i].append(_seconds_of(compiled, args, count))
    for i, seconds in times.items():
        spread = 0.0
        if len(seconds) > 1:
            low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
            spread = (high - low) / 2
        found[i] = replace(found[i], seconds=statistics.median(seconds), spread=spread)
    return found


def _seconds_of(compiled: Callable[..., Any], args: tuple[Any, ...], count: int) -> float:
    """Seconds of one call, from `count` of them, each of which is waited for."""
    start = time.perf_counter()
    for _ in range(count):
        pellucid.block_until_ready(compiled(*args))
    return (time.perf_counter() - start) / count


# Ranking --------------------------------------------------------------------------------------------------------


def _ranked(program: _Program, args: tuple[Any, ...], target: str | None) -> Candidate:
    """The candidate with what its kernels move and hold, or why they can't run on the target."""
    candidate = program.candidate
    if candidate.failure:
        return candidate
    try:
        kernels = [
            e.params.kernel
            for jaxpr in programs_within(make_jaxpr(program.function)(*args).jaxpr)
            for e in jaxpr.equations
            if e.primitive is pallas_call_p
        ]
        records = kernel_grids(program.function, *args).kernels
        if target not in MACHINES:
            return _on_tpu(candidate, kernels, records, chip_of(target))
        occupancy = [_occupancy(kernel, target) for kernel in kernels]
    except Exception as error:  # what a kernel raises is a row
        return replace(candidate, failure=_reason(error))
    if not kernels:
        return replace(candidate, failure="it calls no kernel")
    known = [share for share in occupancy if share is not None]
    return replace(
        _with_moves(candidate, records),
        footprint=max([_footprint(kernel) for kernel in kernels]),
        occupancy=min(known) if len(known) == len(kernels) else None,
    )


def _occupancy(kernel: Any, target: str) -> float | None:
    """The occupancy of a kernel on a GPU; None for one that is a program of XLA's, and where nothing installed compiles it.

    Raises: UnsupportedError for a kernel that can't be lowered to the GPU, CompilationError for one that can't be compiled for it.
    """
    facts = GPU_TARGETS[target].facts
    architecture = ".".join(map(str, facts.compute_capability))
    if isinstance(kernel.compiler_params, TritonParams):
        text: Any = triton_text(kernel)
        find = functools.partial(text.resources, architecture)
    elif isinstance(kernel.compiler_params, MosaicGpuParams):
        if facts.compute_capability < _HOPPER:
            raise UnsupportedError("Mosaic's kernels are for Hopper GPUs.", got=target)
        find = mosaic_gpu_text(kernel).resources
    else:
        return None
    try:
        return find().occupancy
    except UnsupportedError:  # nothing that compiles it is installed
        return None


def _with_moves(candidate: Candidate, records: Sequence[GridKernelRecord]) -> Candidate:
    unknown = any(operand.note for record in records for operand in record.operands)
    return replace(
        candidate,
        moved_bytes=None if unknown else sum([record.moved_bytes for record in records]),
        fetches=sum([o.fetch_count + o.write_count for record in records for o in record.operands]),
    )


def chip_of(target: str | None) -> str:
    """The short name of the TPU that a target is.

    >>> chip_of("TPU"), chip_of("v6e")
    ('v5e', 'v6e')
    """
    return target if target in TPU_CHIPS else "v5e"


def _on_tpu(
    candidate: Candidate, kernels: Sequence[Any], records: Sequence[GridKernelRecord], chip: str
) -> Candidate:
    """The candidate with its modelled time. Raises: UnsupportedError for kernels that can't be lowered to TPUs."""
    if not kernels:
        return replace(candidate, failure="it calls no kernel")
    footprints = [sum([n for _, n in lowered(k, TPU_CHIPS[chip]).vmem]) for k in kernels]
    candidate = replace(_with_moves(candidate, records), footprint=max(footprints))
    candidate = _with_pipelines(candidate, kernels, records)
    for kernel, footprint in zip(kernels, footprints, strict=True):
        stated = getattr(kernel.compiler_params, "vmem_limit_bytes", None)
        if footprint > (room := _VMEM_BYTES if stated is None else int(stated)):
            text = f"blocks and scratch take {_bytes(footprint)} of {_bytes(room)}"
            return replace(candidate, failure=text)
    times = [tpu_time(k, r, chip) for k, r in zip(kernels, records, strict=False)]
    known = [time for time in times if time is not None]
    if len(known) < len(kernels):
        return candidate
    uses = [time.matrix_unit_use for time in known if time.matrix_unit_use is not None]
    return replace(
        candidate,
        modelled_seconds=sum([time.seconds for time in known]),
        matrix_unit_use=min(uses) if uses else None,
        tile_use=min([time.tile_use for time in known]),
    )


def _with_pipelines(
    candidate: Candidate, kernels: Sequence[Any], records: Sequence[GridKernelRecord]
) -> Candidate:
    """The candidate with what pipelines move in the place of the arrays that they move parts of; with nothing where that isn't known."""
    for kernel, record in zip(kernels, records, strict=False):
        pipelines = pipelines_of(kernel)
        if pipelines == []:
            continue
        moves = [moves_of(each) for each in pipelines or [None] if each is not None]
        if not moves or None in moves or candidate.moved_bytes is None:
            return replace(candidate, moved_bytes=None, fetches=None)
        mappings, stay = (*kernel.inputs, *kernel.results), names_in_slow_memory(kernel)
        whole = [o for m, o in zip(mappings, record.operands, strict=True) if m.name in stay]
        n_bytes = sum([m.n_bytes for m in moves if m]) * record.program_count
        count = sum([m.n_copies for m in moves if m]) * record.program_count
        candidate = replace(
            candidate,
            moved_bytes=candidate.moved_bytes + int(n_bytes) - sum([o.moved_bytes for o in whole]),
            fetches=(candidate.fetches or 0)
            + count
            - sum([o.fetch_count + o.write_count for o in whole]),
        )
    return candidate


def _footprint(kernel: Any) -> int:
    blocks = [math.prod(m.sizes) * m.aval.dtype.itemsize for m in (*kernel.inputs, *kernel.results)]
    scratch = [math.prod(aval.shape) * aval.dtype.itemsize for aval in kernel.scratch]
    return _BUFFERS * sum(blocks) + sum(scratch)


# On disk --------------------------------------------------------------------------------------------------------


def _file(tuning: Tuning) -> Path | None:
    """The file of a result; None without a folder of compiled programs."""
    home = disk_cache.folder()
    if home is None:
        return None
    facts = (tuning.program, tuning.device, tuning.is_measured, tuning.jaxlib, tuning.operands)
    if not tuning.is_measured:
        facts = (*facts, _RANKING, ptxas() is not None, cuda_plugin() is not None)
    if tuning.is_measured:  # the processor and the options of XLA count, too
        device = pellucid.devices()[0]
        facts = (*facts, disk_cache.environment_of(device.client, [device]))
    return home / f"{hashlib.sha256(repr(facts).encode()).hexdigest()}{_SUFFIX}"


def _read(path: Path | None, tuning: Tuning, settings: list[dict[str, Any]]) -> Tuning | None:
    """The result that was kept; None if there is none, or it can't be read."""
    try:
        rows = json.loads(path.read_text()) if path is not None else None
        if rows is None or sorted([row["number"] for row in rows]) != list(range(len(settings))):
            return None
        # Settings may be any objects: the file has their numbers.
        candidates = [Candidate(settings[row.pop("number")], **row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return replace(tuning, candidates=tuple(candidates), is_from_disk=True)


def _write(path: Path | None, tuning: Tuning, settings: list[dict[str, Any]]) -> None:
    if path is None:
        return
    numbers = {id(each): i for i, each in enumerate(settings)}
    rows = [
        {"number": numbers[id(c.settings)]} | {k: x for k, x in vars(c).items() if k != "settings"}
        for c in tuning.candidates
    ]
    disk_cache.keep(path, json.dumps(rows).encode())


__all__ = ["Candidate", "Tuning", "tune"]

public_functions(__all__, globals())
