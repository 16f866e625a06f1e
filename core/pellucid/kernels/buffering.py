"""A grid within a kernel whose blocks are copied to and from buffers while programs run: what `emit_pipeline` is on TPUs.

Elsewhere nothing runs beside a program, so its definition, which reads and writes blocks in turn, is what runs.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    Function,
    UnsupportedError,
    strict_zip,
)
from pellucid._machine.higher_order.calls import Defined, JitParams
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import (
    ClosedJaxpr,
    Jaxpr,
    Shown,
    Values,
    abstract_ref,
    read_effect,
    rearrange_program,
    shaped_array,
    write_effect,
)
from pellucid._machine.refs.access import RefView
from pellucid._machine.refs.primitives import OfReference
from pellucid._machine.tracing import bind, replay, types_of, use_source
from pellucid._machine.transforms import stage_open

from .copies import AsyncCopy, make_async_copy, sync_copy
from .inside import run_scoped, when
from .lowering.programs import begins_by_writing
from .mappings import INDEX
from .parts import Parts, parts_of
from .programs import position
from .specs import (
    Blocked,
    Element,
    SemaphoreType,
    Squeezed,
    block_dims,
    padding_of,
    size_of,
)
from .tpu import MemorySpace

RunBody: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], None]
"""Runs the body at a position, with references to blocks."""
AtEdge: TypeAlias = Mapping[int, tuple[int, int] | None]
"""For dimensions that blocks don't divide, which elements of the last block (first, size) are meant; None for a block before it."""
View: TypeAlias = Callable[[Any, Any, Sequence[Any], AtEdge | None], tuple[RefView, Any]]
"""(the view of the block, mask) of a spec, a reference, a position, and where the block is at an edge."""


class Grid(NamedTuple):
    """A grid of `total` programs, the specs of its blocks, and how many of them are those of inputs."""

    sizes: tuple[Any, ...]
    total: Any
    specs: Sequence[Any]
    n_inputs: int


def number_of_programs(sizes: Sequence[Any]) -> Any:
    """The product of the sizes of a grid. Raises: ArgumentTypeError for sizes that are no integers, known or traced."""
    is_integer = lambda n: n.dtype.kind in "iu" and not n.shape if hasattr(n, "dtype") else type(n) is int  # fmt: skip
    if not isinstance(sizes, (tuple, list)) or not all(map(is_integer, sizes)):
        raise ArgumentTypeError(
            "emit_pipeline: a grid is a tuple of integers.", got=f"grid {sizes!r:.80}"
        )
    total: Any = 1
    for n in sizes:
        total = total * n
    return total


def index_at(spec: Any, ids: Sequence[Any]) -> tuple[Any, ...]:
    """The index that the map of a spec gives for the program at `ids`. Raises: ArgumentTypeError for a map of other arguments."""
    try:
        inspect.signature(spec.index_map).bind(*ids)
    except TypeError as error:
        raise ArgumentTypeError(
            "emit_pipeline: an index map takes one argument for each of the grid's axes.",
            got=f"{error}; the grid has {len(ids)} axes",
            where=spec.line,
        ) from None
    except ValueError:  # of a builtin
        pass
    found = spec.index_map(*ids)
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


# The primitive ------------------------------------------------------------------------------------------------


class Staged(NamedTuple):
    """A program with copies to buffers, its constants, or why there is none."""

    program: ClosedJaxpr | None
    consts: Values
    reason: str = ""
    copied: Copied | None = None


class Copied(NamedTuple):
    """What a program with copies to buffers runs and copies: its grid, the body, and the types of the blocks."""

    grid: Grid
    body: Jaxpr
    blocks: tuple[Any, ...]
    streams: tuple[bool, ...]
    """For each result whether it is sent while the next program runs."""


class _Held:
    """What tools for programs don't look into: the program with buffers, and which operands of the equation it takes."""

    def __init__(self, staged: Staged, places: list[int]) -> None:
        self.staged, self.places = staged, places


class PipelineParams(NamedTuple):
    """`jaxpr` is the definition, a program of all operands: its constants, those of `parts`, then what only the program with buffers takes."""

    jaxpr: Any
    held: _Held
    parts: Parts

    def as_call(self) -> JitParams:
        """Params of a call of the definition."""
        return JitParams("emit_pipeline", self.jaxpr)

    def with_buffers(self, operands: Sequence[Any]) -> tuple[ClosedJaxpr | None, list[Any], str]:
        """(the program with buffers, its operands among those of the equation, why there is none)."""
        staged = self.held.staged
        return staged.program, [operands[i] for i in self.held.places], staged.reason


class Pipeline(Shown, Defined[PipelineParams]):
    """A grid within a kernel."""

    name = "emit_pipeline"
    traits = OfReference.traits.replace(returns_list=True)
    unshown = ("jaxpr", "held")

    def effects(self, avals, params):
        return super().effects(avals, params) | {read_effect, write_effect}

    def printed_params(self, equation):
        return {"parts": equation.params.parts, "jaxpr": equation.params.jaxpr}


emit_pipeline_p = Pipeline()


def run_pipeline(
    in_order: Function, found: Staged, refs: Sequence[Any], *, must_have_buffers: bool = False
) -> None:
    """Run `in_order` of references and views, which is the definition of the pipeline that `found` has with buffers.

    Raises: UnsupportedError for a body that uses a reference of the pipeline itself, if that `must_have_buffers`.
    """
    parts, own = parts_of("emit_pipeline", refs)

    def run(*operands: Any) -> Values:
        in_order(*parts.views(operands))
        return []

    program, consts = stage_open(run, types_of(own), None)
    if {*map(_key, consts)} & {*map(_key, own)}:  # the body itself uses a reference of the pipeline
        if must_have_buffers:
            raise UnsupportedError(
                "the body of a pipeline that threads share can't use a reference of the pipeline itself.",
                do="Read and write the blocks that it gets.",
            )
        in_order(*refs)
        return
    operands = [*consts, *own]
    places = {_key(x): i for i, x in enumerate(operands)}
    for x in found.consts:
        if _key(x) not in places:
            places[_key(x)] = len(operands)
            operands.append(x)
    n, more = len(consts) + len(own), types_of(operands)[len(consts) + len(own) :]
    # The definition leaves alone what only the program with buffers takes.
    definition = rearrange_program(program, [*range(n), *more])
    own_places = range(len(consts), n)
    held = _Held(found, [*[places[_key(x)] for x in found.consts], *own_places])
    bind(emit_pipeline_p, *operands, params=PipelineParams(definition, held, parts))


def _key(x: Any) -> Any:
    """What identifies a reference, of which there may be several tracers, or another operand."""
    return getattr(x, "variable", None) or id(x)


# With buffers -------------------------------------------------------------------------------------------------


def staged(run_body: RunBody, grid: Grid, refs: Sequence[Any], view: View) -> Staged:
    """The program of a pipeline over parts of `refs` in which copies run beside the body."""
    if reason := _why_not(grid, refs):
        return Staged(None, [], reason)
    parts, own = parts_of("emit_pipeline", refs)
    body, body_consts = _staged_body(run_body, grid, refs)
    first = len(body_consts) + len(grid.sizes) + grid.n_inputs
    # For each result whether the body begins by writing all of its block, so that none is read before.
    streams = [begins_by_writing(body.jaxpr, v) for v in body.jaxpr.invars[first:]]

    def run_staged(ids: Sequence[Any], blocks: Sequence[Any]) -> None:
        replay(body.jaxpr, (), *body_consts, *ids, *blocks)

    def run(*operands: Any) -> Values:
        views = parts.views(operands)
        types = []
        for spec, ref in strict_zip(grid.specs, refs):
            buffer = MemorySpace.VMEM(_block_shape(spec, ref), ref.dtype)
            types += [buffer, buffer, SemaphoreType.DMA, SemaphoreType.DMA]
        run_scoped(lambda *held: _Buffers(grid, views, view, held, streams).run(run_staged), *types)
        return []

    program, consts = stage_open(run, types_of(own), None)
    blocks = tuple([shaped_array(_block_shape(*each), each[1].dtype) for each in strict_zip(grid.specs, refs)])  # fmt: skip
    return Staged(program, consts, copied=Copied(grid, body.jaxpr, blocks, tuple(streams)))


def _block_shape(spec: Any, ref: Any) -> tuple[int, ...]:
    dims = block_dims("emit_pipeline", spec, ref.shape)
    return tuple([size_of(dim) for dim in dims if type(dim) is not Squeezed])


def _why_not(grid: Grid, refs: Sequence[Any]) -> str:
    """Why a grid has no program with buffers; empty if it has one."""
    base = [getattr(ref, "ref", ref) for ref in refs]
    if any(x is y for x in base[: grid.n_inputs] for y in base[grid.n_inputs :]):
        return "a pipeline reads the next blocks meanwhile, so it can't write to a reference that it reads."
    for spec, ref in strict_zip(grid.specs, refs):
        for dim in block_dims("emit_pipeline", spec, ref.shape):
            if type(dim) not in (Blocked, Squeezed, Element) or padding_of(dim) != (0, 0):
                return f"a pipeline has blocks of sizes, None or Element, not {dim}."
    return ""


def _staged_body(run_body: RunBody, grid: Grid, refs: Sequence[Any]) -> tuple[ClosedJaxpr, Values]:
    """(the body as a program of its constants, a position and references to blocks; values of the constants)."""
    blocks = [
        abstract_ref(shaped_array(_block_shape(spec, ref), ref.dtype))
        for spec, ref in strict_zip(grid.specs, refs)
    ]

    def run(*operands: Any) -> Values:
        n = len(grid.sizes)
        run_body(operands[:n], operands[n:])
        return []

    return stage_open(run, [*[INDEX] * len(grid.sizes), *blocks], None)


def _pieces(size: int, dtype: Any, *, is_rows: bool) -> list[tuple[int, int]]:
    """Parts (first, size) of what is left for the last block: TPUs copy whole tiles of rows, or rows of one tile."""
    tile = 32 if dtype.itemsize == 1 else 8
    whole = size - size % tile
    if not is_rows or whole in (0, size):
        return [(0, size)]
    return [(0, whole), (whole, size - whole)]


def _if(condition: Any, function: Callable[[], None]) -> None:
    when(condition)(function)


class _Buffers(NamedTuple):
    """A run of a pipeline: two buffers and two semaphores for each reference. Programs use them in turn."""

    grid: Grid
    views: Sequence[Any]
    view: View
    held: Sequence[Any]
    """For each reference its two buffers, then its two semaphores."""
    streams: Sequence[bool]

    def run(self, run_body: RunBody) -> None:
        """Run the body for each point of the grid."""
        total = self.grid.total
        _if(total > 0, lambda: self.fetch(np.int32(0), 0))

        def step(t: Any, _: None) -> None:
            for slot in (0, 1):
                _if(t % 2 == slot, lambda slot=slot: self.program(run_body, t, slot))

        n = np.int32(total) if isinstance(total, int) else total
        fori_loop(np.int32(0), n, step, None)
        # Copies of the last two programs to their blocks still run.
        for back in (2, 1):
            _if(total >= back, lambda back=back: self.finish(total - back))

    def program(self, run_body: RunBody, t: Any, slot: int) -> None:
        """Program `t` with the buffers `slot`, while the blocks of the next one come to the other ones."""
        n = self.grid.n_inputs
        _if(t + 1 < self.grid.total, lambda: self.fetch(t + 1, 1 - slot))
        for k in range(n):
            self.copy_in(k, t, slot, AsyncCopy.wait)
        blocks = [self.held[4 * k + slot] for k in range(n)]
        for k, streams in enumerate(self.streams, n):
            if streams:
                is_busy = (t >= 2) & self.is_last(k, t - 2)
                _if(is_busy, lambda k=k: self.copy_out(k, t - 2, slot, AsyncCopy.wait))
                blocks.append(self.held[4 * k + slot])
                continue
            _if(self.is_first(k, t), lambda k=k: self.parts(k, t, 0, sync_copy))
            blocks.append(self.held[4 * k])
        run_body(position(t, self.grid.sizes), blocks)
        for k, streams in enumerate(self.streams, n):
            if streams:
                _if(self.is_last(k, t), lambda k=k: self.copy_out(k, t, slot, AsyncCopy.start))
                continue
            write = lambda part, buffer: sync_copy(buffer, part)
            _if(self.is_last(k, t), lambda k=k, write=write: self.parts(k, t, 0, write))

    def fetch(self, t: Any, slot: int) -> None:
        """Let the inputs of program `t` come to the buffers `slot`."""
        for k in range(self.grid.n_inputs):
            self.copy_in(k, t, slot, AsyncCopy.start)

    def finish(self, t: Any) -> None:
        """Wait for what program `t` has sent."""
        for k, streams in enumerate(self.streams, self.grid.n_inputs):
            if streams:
                for slot in (0, 1):
                    is_busy = (t % 2 == slot) & self.is_last(k, t)
                    wait = lambda k=k, slot=slot: self.copy_out(k, t, slot, AsyncCopy.wait)
                    _if(is_busy, wait)

    def line_of(self, k: int) -> use_source:
        """A context in which what is made has the line of the spec of reference `k`."""
        return use_source(self.grid.specs[k].source)

    def parts(self, k: int, t: Any, slot: int, copy: Callable[[Any, Any], Any]) -> None:
        """`copy` the block of reference `k` that program `t` sees and its buffer, or what both have of it at an edge.

        Copies have known sizes, so there is one for each set of edges that a block may be at.
        """
        spec, ref = self.grid.specs[k], self.views[k]
        dims = block_dims("emit_pipeline", spec, ref.shape)
        ends = {i: divmod(n, dim.block_size) for i, (dim, n) in enumerate(strict_zip(dims, ref.shape)) if type(dim) is Blocked}  # fmt: skip
        ends = {i: end for i, end in ends.items() if end[1]}
        ids, buffer = position(t, self.grid.sizes), self.held[4 * k + slot]
        if not ends:
            with self.line_of(k):
                copy(self.view(spec, ref, ids, None)[0], buffer)
            return
        indices = self.indices(k, t) or (np.int32(0),) * len(dims)
        kept = [i for i, dim in enumerate(dims) if type(dim) is not Squeezed]
        rows = len(dims) - 2
        choices = [[*([None] if n else []), *_pieces(rest, ref.dtype, is_rows=i == rows)] for i, (n, rest) in ends.items()]  # fmt: skip
        for chosen in itertools.product(*choices):
            at_edge = dict(zip(ends, chosen, strict=True))
            here: Any = True
            for i, piece in at_edge.items():
                is_last = indices[i] == ends[i][0]
                here = here & (~self._bool(is_last) if piece is None else is_last)
            cuts = [at_edge.get(i) for i in kept]
            cut = tuple([slice(None) if c is None else slice(c[0], sum(c)) for c in cuts])
            with self.line_of(k):
                part, _ = self.view(spec, ref, ids, at_edge)
                _if(self._bool(here), lambda part=part, cut=cut: copy(part, buffer.at[cut]))

    def copy_in(self, k: int, t: Any, slot: int, do: Callable[[AsyncCopy], None]) -> None:
        """Start the copy of a block to a buffer, or wait for it."""
        done = self.held[4 * k + 2 + slot]
        self.parts(k, t, slot, lambda part, buffer: do(make_async_copy(part, buffer, done)))

    def copy_out(self, k: int, t: Any, slot: int, do: Callable[[AsyncCopy], None]) -> None:
        """Start the copy of a buffer to its block, or wait for it."""
        done = self.held[4 * k + 2 + slot]
        self.parts(k, t, slot, lambda part, buffer: do(make_async_copy(buffer, part, done)))

    def indices(self, k: int, t: Any) -> Sequence[Any]:
        """The index of the block of reference `k` that program `t` sees."""
        spec = self.grid.specs[k]
        ids = position(t, self.grid.sizes)
        return () if spec.index_map is None else index_at(spec, ids)

    def is_same(self, k: int, t: Any, other: Any) -> Any:
        """Whether two programs see the same block of reference `k`."""
        same: Any = True
        for x, y in strict_zip(self.indices(k, t), self.indices(k, other)):
            same = same & (x == y)
        return same

    def is_first(self, k: int, t: Any) -> Any:
        """Whether program `t` is the first of some in succession that see one block of reference `k`."""
        return (t == 0) | ~self._bool(self.is_same(k, t, t - 1))

    def is_last(self, k: int, t: Any) -> Any:
        """Whether program `t` is the last of them."""
        return (t == self.grid.total - 1) | ~self._bool(self.is_same(k, t, t + 1))

    @staticmethod
    def _bool(x: Any) -> Any:
        return np.bool_(x) if isinstance(x, bool) else x
