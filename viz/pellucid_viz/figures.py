"""The figures for users: programs, executables, shardings, memory, cache misses, profiles.

Figures of a function are made in two calls, like everything about functions: `lens(f)(x)` shows `f` for the arguments
`(x,)`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pellucid import analysis, introspect
from pellucid.introspect import schema
from pellucid.introspect.errors import ArgumentTypeError
from pellucid_viz.figure import Figure
from pellucid_viz.progress import progress


def program(x: Any, *, profile: Any = None) -> Any:
    """A program as a graph that can be expanded and collapsed, with its text and source lines.

    `x` is a function, whose program for given arguments is shown by `program(f)(*args)`; or a jaxpr or a stage of a
    jitted function (Traced, Lowered, Compiled), shown at once. With a `profile` in which it ran, equations are coloured
    by the time of one execution.

    >>> program(lambda x: x + 1.0)(2.0)
    { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """
    if not is_function(x):
        return Figure(_add_times(analysis.program(x), profile))
    return lambda *args: Figure(_add_times(analysis.program(x, *args), profile))


def _add_times(record: schema.ProgramRecord, profile: Any) -> schema.ProgramRecord:
    """The record with the times of a profile as an additional cost; unchanged without a profile."""
    if profile is None:
        return record
    if record.dialect == "hlo":
        results = record.equations.results
        values = (record.strings[record.values.name[value]] for value in results)
        rows = {name.removeprefix("%"): row for row, name in enumerate(values)}
        times = profile.seconds_of_kernels(record.name, {*rows})
        return analysis.timed(record, {rows[name]: times[name] for name in rows.keys() & times})
    ids = _origins(record)
    seconds = profile.seconds_of_run(ids)
    is_of_run = bool(seconds)
    if not is_of_run:  # its equations ran as parts of other programs only
        seconds = profile.seconds_of_equations
    by_row = {row: seconds[id] for row, id in enumerate(ids) if id in seconds}
    return analysis.timed(record, by_row, is_of_run=is_of_run)


def _origins(record: schema.ProgramRecord) -> list[int]:
    """For each equation the id of the user's equation it comes from, for the first of several with the same; -1 for
    others.
    """
    equations = record.equations
    if record.dialect == "jaxpr":
        return equations.id
    origins = iter(equations.origins)
    first = [[*itertools.islice(origins, n), -1][0] for n in equations.origin_counts]
    rows = {id: row for row, id in reversed([*enumerate(first)])}
    return [id if rows[id] == row else -1 for row, id in enumerate(first)]


def lens(function: Callable[..., Any], *, chip: str | None = None) -> Callable[..., Figure]:
    """The stages of a function, linked line by line: source code, jaxpr, StableHLO and optimized HLO, and its kernels as devices run them.

    Compiles the function for the arguments if necessary. For a `chip` such as "v5e" kernels for TPUs have a pane after each pass of TPUs' compiler that
    changed them: that needs the extra `tpu-aot`, and no TPU. Each kernel is compiled in a process of its own, which takes seconds, and which an
    interrupt ends. Raises: ArgumentValueError for a chip that isn't known.

    >>> figure = lens(lambda x: x * 2.0)(1.0)
    >>> [program.dialect for program in figure.record.programs]
    ['jaxpr', 'stablehlo', 'hlo']
    """
    check_function(function, "lens")

    def show(*args: Any) -> Figure:
        with progress() as report:
            return Figure(analysis.lens(function, *args, chip=chip, report=report))

    return show


def ladder(
    function: Callable[..., Any],
    transformations: Sequence[str] = ("jvp", "linearize", "transpose", "vmap"),
    batch_size: int = 8,
) -> Callable[..., Figure]:
    """The program of a function and of each of its transformations, with each equation linked to its origin.

    `vmap` is applied over `batch_size` elements.

    >>> figure = ladder(lambda x: x * x, ["jvp", "transpose"])(3.0)
    >>> figure.record.transformations
    ['', 'jvp', 'transpose']
    """
    check_function(function, "ladder")

    def show(*args: Any) -> Figure:
        return Figure(
            analysis.ladder(function, *args, transformations=transformations, batch_size=batch_size)
        )

    return show


def passes(function: Callable[..., Any], *, with_xla: bool = True) -> Callable[..., Figure]:
    """A function's program after each pass that changed it: pellucid's passes over the jaxpr, StableHLO, XLA's passes
    over HLO.

    Compiles the function anew for the arguments; `with_xla=False` omits XLA's passes.

    >>> figure = passes(lambda x: [x * 2.0, x + 1.0][0], with_xla=False)(1.0)
    >>> figure.record.transformations
    ['', 'remove dead equations', 'StableHLO']
    """
    check_function(function, "passes")
    return lambda *args: Figure(analysis.passes(function, *args, with_xla=with_xla))


def diff(before: Any, after: Any) -> Any:
    """Comparison of two programs: equal, changed and new equations.

    Two functions are compared for given arguments by `diff(f, g)(*args)`; jaxprs and stages at once.

    >>> print(diff(lambda x: x + 1.0, lambda x: x * 2.0)(3.0))
    --- <lambda>
    +++ <lambda>
    @@ -1 +1 @@
    -{ lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    +{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    if is_function(before) or is_function(after):
        return lambda *args: Figure(analysis.diff(before, after, *args))
    return Figure(analysis.diff(before, after))


def compiled(x: Any, *, profile: Any = None) -> Any:
    """An executable: its cost, memory and kernels.

    `x` is a `Compiled` stage, or a function that `compiled(f)(*args)` compiles. With a `profile` in which it ran,
    kernels have their time per run on one device. Raises: ArgumentValueError if it didn't run in that session.

    >>> figure = compiled(lambda x: x * 2.0)(1.0)
    >>> figure.record.platform
    'cpu'
    """
    if not is_function(x):
        return Figure(_timed_kernels(analysis.compiled(x), profile))
    return lambda *args: Figure(_timed_kernels(analysis.compiled(x, *args), profile))


def _timed_kernels(record: schema.CompiledRecord, profile: Any) -> schema.CompiledRecord:
    """The record with the times of a profile; unchanged without a profile."""
    if profile is None:
        return record
    seconds = profile.seconds_of_kernels(record.name, {each.name for each in record.kernels})
    kernels = [
        dataclasses.replace(each, seconds=seconds.get(each.name, 0.0)) for each in record.kernels
    ]
    return dataclasses.replace(record, kernels=kernels)


def array(x: Any, index: Sequence[int] = ()) -> Figure:
    """Summary of an array's values: counts of NaN, infinities and zeros, range, histogram, and a heat map.

    The heat map shows the last two dimensions, at `index` along the leading ones. Everything is computed on the array's
    devices.

    Raises: ArgumentValueError for an `index` out of bounds.

    >>> array(jnp.arange(160.0).reshape(10, 16))
    f32[10,16]
    values 0 to 159
    mean 79.5
    1 zero
    ████████████████████████████████████████
    """
    return Figure(_findable(analysis.array_values(x, index), x))


def _findable(record: Any, x: Any) -> Any:
    """The record with a key by which the kernel can find the array to show other slices and shards."""
    if type(x).__name__ != "ArrayImpl":
        return record
    return dataclasses.replace(record, array=introspect.array_key(x))


def function(f: Any) -> Figure:
    """A jitted function: its signature, its programs and the reason for each, with links to their views.

    A jitted function on the last line of a cell is displayed like this.

    Raises: ArgumentTypeError if `f` isn't a jitted function of the user.

    >>> f = pl.jit(lambda x: x + 1)
    >>> _ = f(2.0)
    >>> print(function(f))
    <lambda>(x), jitted in ...
      (x: f32[]): 1 equation, compiled for 1 placement; it was never called before
    """
    record = introspect.function(f)
    if record is None:
        raise ArgumentTypeError(
            "function needs a jitted function.",
            got=f"got {type(f).__name__}",
            do="Write pl.jit(f).",
        )
    return Figure(record)


def sharding(x: Any, shape: Sequence[int] | None = None) -> Any:
    """The placement of an array: which device has which shard. For a mesh or a sharding of `shape`, that of an array it
    describes.

    `sharding(f)(*args)` shows, without running it, the sharding of each intermediate of a function with the reason for
    it, and the data exchanged between devices; arguments may be ShapeDtypeStructs over an abstract mesh.

    >>> mesh = pl.sharding.AbstractMesh((4,), ("data",))
    >>> sharding(pl.NamedSharding(mesh, pl.P("data")), (8, 2))
    [8,2] as P('data',) on mesh data=4
      devices 0: [0:2, 0:2]
      devices 1: [2:4, 0:2]
      devices 2: [4:6, 0:2]
      devices 3: [6:8, 0:2]
    >>> rows = pl.ShapeDtypeStruct((8, 2), "float32", sharding=pl.NamedSharding(mesh, pl.P("data")))
    >>> figure = sharding(lambda x: x.sum())(rows)
    >>> [(each.operation, each.axes, each.reason) for each in figure.record.collectives]
    [('all-reduce', ['data'], 'contraction')]
    """
    if is_function(x):
        return lambda *args: Figure(analysis.sharding(x, *args))
    return Figure(_findable(introspect.sharding(x, shape=shape), x))


def memory(function: Any = None) -> Any:
    """Live arrays on the devices with their owners, or the memory that a run of a function needs.

    `memory()` shows live arrays now. `memory(f)(*args)` compiles `f` and shows the memory of its executable without
    running it.

    >>> figure = memory(lambda x: x @ x)(jnp.ones((64, 64)))
    >>> figure.record.memory.argument_bytes
    16384
    """
    if function is None:
        return Figure(introspect.memory())
    return compiled(function)


def grid(function: Callable[..., Any]) -> Callable[..., Figure]:
    """The kernels that a function calls, over their grids: which program reads and writes which block, in order.

    Shows bytes moved beside the least possible, idle programs, masked elements, and in red races, blocks outside and elements that are never
    written. Nothing runs, but for prefetched scalars that index maps read; arguments may be ShapeDtypeStructs. A kernel that is refused because of its grid is shown, too.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x, row = jnp.zeros((4, 8)), BlockSpec((1, 8), lambda i: (i, 0))
    >>> print(grid(pallas_call(double, x, grid=4, in_specs=[row], out_specs=row))(x))
    kernel `double` over a grid of 4: 4 programs
      moves 256 B, the least possible
      32 flop (estimate), 0.125 flops per byte
       operand  type      block  blocks  moved      bytes moved  least  not used
       x_ref    f32[4,8]  1 × 8  4       4 fetched  128 B        128 B
       o_ref    f32[4,8]  1 × 8  4       4 written  128 B        128 B
    """
    check_function(function, "grid")
    return lambda *args: Figure(analysis.kernel_grids(function, *args))


def kernel_memory(function: Callable[..., Any], chip: str = "v5e") -> Callable[..., Figure]:
    """What the kernels of a function hold in the fast memories of a TPU, by buffer and line, beside what the chip has.

    Blocks in whole tiles times their buffers, and scratch; the compiler adds what it needs for values in between. Nothing runs, and
    no compiler of TPUs is needed; arguments may be ShapeDtypeStructs.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x, row = jnp.zeros((32, 100)), BlockSpec((8, 100), lambda i: (i, 0))
    >>> print(kernel_memory(pallas_call(double, x, grid=4, in_specs=[row], out_specs=row))(x))
    kernel `double`
      VMEM: 16 KiB, v5e has 128 MiB, 0.0122 %
        memory  held for  type        buffers  bytes  unused         line
        VMEM    x_ref     f32[8,100]  2        8 KiB  21.9 % of tiles  ...
        VMEM    o_ref     f32[8,100]  2        8 KiB  21.9 % of tiles  ...
    """
    check_function(function, "kernel_memory")
    return lambda *args: Figure(analysis.kernel_memories(function, *args, chip=chip))


def timeline(x: Any, *, params: Any = None) -> Any:
    """Kernels in the simulator: for each core and device when it computed and waited, which copies were in flight, and which lines waited longest.

    `timeline(f)(*args)` runs `f` with its kernels in the simulator, with `params` (`tpu.InterpretParams`) for calls that state none. A run that
    fails is shown up to there, with the error and the cores that wait forever. Runs that `simulator.call.recorded` has collected are shown at once.

    Raises: ArgumentTypeError for other `params`, or for what is neither a function nor runs.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x, row = jnp.zeros((32, 128)), BlockSpec((8, 128), lambda i: (i, 0))
    >>> print(timeline(pallas_call(double, x, grid=4, in_specs=[row], out_specs=row))(x))
    kernel `double` on 1 device: 18 steps
      cores compute 22.2 % of the time and wait 77.8 %
      32 KiB copied
      ...
    """
    if is_function(x):
        return lambda *args: Figure(analysis.kernel_timelines(x, *args, params=params))
    return Figure(analysis.machine_timelines([*x] if isinstance(x, (list, tuple)) else [x]))


def misses(n: int = 20) -> Figure:
    """The latest `n` traces and compilations of jitted functions with their reasons, newest first.

    >>> _ = pl.jit(lambda x: x - 1)(2.0)
    >>> print(misses(1))
    `<lambda>` was traced, lowered and compiled (...) in ...
      because it was never called before
    """
    return Figure(schema.MissesRecord(misses=introspect.misses(n)))


def profile(session: Any) -> Figure:
    """A profiler session: findings, time by line, operation and scope, and the timeline.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> profile(recorded).record.totals.call_count
    1
    """
    return Figure(session.record(), text=session.report(), html=session.to_html())


def profile_comparison(comparison: Any) -> Figure:
    """Comparison of two profiler sessions: the lines that became slower or faster.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> profile_comparison(recorded.diff(recorded)).record.kind
    'profile_comparison'
    """
    return Figure(comparison.record(), text=repr(comparison), html=comparison.to_html())


def is_function(x: Any) -> bool:
    """Whether `x` is a function, which is shown for given arguments, rather than at once."""
    return callable(x) and type(x).__name__ not in ("Compiled", "Mesh")


def check_function(x: Any, caller: str) -> None:
    """Raises ArgumentTypeError unless `x` is a function."""
    if not is_function(x):
        raise ArgumentTypeError(
            f"{caller} needs a function, and its arguments in a second call.",
            got=f"got {type(x).__name__}",
            do=f"Write pl.viz.{caller}(f)(x).",
        )
