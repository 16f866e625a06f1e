"""`pallas_call`: a kernel over a grid, as a function of arrays, and its primitive."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    UnsupportedError,
    dtypes,
    keystr,
    leaf_paths,
    strict_zip,
    tree_flatten,
    tree_structure,
)
from pellucid._machine.base.dims import Symbol
from pellucid._machine.base.late import late
from pellucid._machine.base.tree import flatten_up_to
from pellucid._machine.checks.errors import CheckSite
from pellucid._machine.checks.guard import guard
from pellucid._machine.higher_order.calls import Defined, Jit, JitParams, jit_p
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    DebugInfo,
    ShapedArray,
    Shown,
    Values,
    abstract_ref,
    rearrange_program,
    shaped_array,
)
from pellucid._machine.primitives import zeros
from pellucid._machine.refs.access import get, set as write
from pellucid._machine.tracing import (
    bind,
    context,
    is_reference,
    name_of,
    source_of,
    type_of,
    types_of,
    unchecked_axes,
)
from pellucid._machine.transforms import (
    LIVE,
    argument_paths,
    batch_jaxpr,
    check_callable,
    jvp_jaxpr,
    masked_pass,
    nonzero,
    nonzero_mask,
    split_tangents,
    stage_open,
    unknown,
)

from .captured import Captured, with_captured
from .copies import has_copies
from .failures import Failures, Layout
from .gpu import params as gpu
from .gpu.barrier_checks import check_counters
from .gpu.memory import kind_of_block
from .gpu.waiting import waits_for_threads
from .grid import GridPosition, programs_of_kernel, within
from .grid_checks import (
    check_inside,
    check_traced_grid_when_run,
    check_visits_when_run,
    check_written,
)
from .mappings import (
    INDEX,
    BlockMapping,
    mapping_of,
    with_indices,
)
from .programs import GridKernel
from .simulator.params import (
    GpuInterpretParams,
    InterpretParams,
    gpu_simulation_of,
    simulation_of,
)
from .specs import (
    BlockSpec,
    GridSpec,
    MemoryRef,
    NoBlockSpec,
    Space,
    begins_at_zero,
    is_parallel,
    kind_of_scratch,
    no_block_spec,
    outside,
    space_of,
    whole,
)
from .triton import language as triton


class KernelCallParams(NamedTuple):
    """`jaxpr` is what the call computes, as a program on values; operands are bounds that are traced, scalars, inputs.

    `smooth` is the same with zeros beyond the edges of arrays, None for one without edges: a product of a cotangent, which is 0
    there, and an undefined element would be NaN.
    """

    jaxpr: ClosedJaxpr
    kernel: GridKernel
    name: str
    smooth: ClosedJaxpr | None
    is_own: bool = True
    """Whether `jaxpr` is what `kernel` computes, and no derivative or batch of it."""
    waits: bool = False
    """Whether it is simulated unasked, as its threads wait for each other: `jaxpr` is for CPUs."""

    def as_call(self) -> JitParams:
        """Params of a call that computes the same."""
        return JitParams(self.name, self.jaxpr)


def vary_jointly(avals: Avals, types: tuple[Any, Any]) -> tuple[Any, Any]:
    """(types of results, effects) of a call whose program's types say nothing of axes: results vary over those of all operands."""
    results, effects = types
    axes = frozenset[Any]().union(*[a.varying for a in avals if type(a) is ShapedArray])
    if not axes:
        return results, effects
    return tuple([r.update(varying=axes) if type(r) is ShapedArray else r for r in results]), effects  # fmt: skip


class PositionCall(Jit):
    """A call of what a kernel, or a derivative of it, computes at one position within `shard_map`.

    Its program holds references' contents, of which it isn't known over which axes they vary before all is written to them. So its types
    say nothing of that: operands are cast to vary over the same axes, and results vary over these.
    """

    name = "position_call"
    varies_jointly = True

    def types(self, avals, params):
        return vary_jointly(avals, super().types(avals, params))


position_p = PositionCall()


class SmoothCall(Jit):
    """A call of what a kernel computes with zeros beyond the edges of arrays.

    Its reverse mode is always masked: the function that a kernel computes may be infinite where there is no element.
    """

    name = "smooth_call"
    varies_jointly = True

    def types(self, avals, params):
        return vary_jointly(avals, super().types(avals, params))

    def transpose(self, cotangents, operands, params):
        call = position_p if context.checked_axes else jit_p
        transposed = functools.partial(call.transpose, operands=operands, params=params)
        return masked_pass(transposed, cotangents, [LIVE] * len(cotangents))


smooth_p = SmoothCall()


class KernelCall(Shown, Defined[KernelCallParams]):
    """A kernel over a grid."""

    name = "pallas_call"
    varies_jointly = True

    @property
    def definition(self) -> Any:
        return position_p if context.checked_axes else jit_p

    def types(self, avals, params):
        return vary_jointly(avals, super().types(avals, params))

    def printed_params(self, equation):
        kernel = equation.params.kernel
        blocks = [
            f"{m.name}: {m.sizes} of {m.aval.shape}" for m in (*kernel.inputs, *kernel.results)
        ]
        return {
            "name": kernel.name,
            "grid": kernel.grid,
            "blocks": tuple(blocks),
            "jaxpr": kernel.body,
        }

    def lower(self, ctx, operands, params):
        kernel = params.kernel
        is_triton = isinstance(kernel.compiler_params, triton.CompilerParams)
        if is_triton and params.is_own and ctx.platform in ("cuda", "rocm"):
            inputs = operands[len(operands) - len(kernel.inputs) :]
            return late("call of a Triton kernel")(ctx, kernel, inputs)
        is_mosaic = isinstance(kernel.compiler_params, gpu.CompilerParams)
        if is_mosaic and (params.is_own or params.waits) and ctx.platform == "cuda":
            n = len(kernel.scalars) + len(kernel.inputs)
            return late("call of a Mosaic GPU kernel")(ctx, kernel, operands[len(operands) - n :])
        is_of_gpus = is_triton or is_mosaic
        if not is_of_gpus and params.is_own and ctx.platform == "tpu":
            n = kernel.grid.count(None) + len(kernel.scalars) + len(kernel.inputs)
            return late("call of a Mosaic kernel")(ctx, kernel, operands[len(operands) - n :])
        if params.waits and ctx.platform != "cpu":
            raise UnsupportedError(
                f"the kernel `{kernel.name}`: threads that wait for each other are not lowered for {ctx.platform}.",
                do="Run it on a Hopper GPU, or on the CPU, where it is simulated.",
            )
        return jit_p.lower(ctx, operands, params.as_call())

    def linearize(self, trace, primals, tangents, params):
        if params.smooth is None:
            return super().linearize(trace, primals, tangents, params)
        # Results from the kernel itself, tangents from the program with zeros beyond the edges.
        smooth = JitParams(params.name, params.smooth)
        tangents = smooth_p.linearize(trace, primals, tangents, smooth)[1]
        return bind(self, *primals, params=params), tangents

    def jvp(self, primals, tangents, params):
        mask = nonzero_mask(tangents)
        results = self._derived(
            params, lambda p: jvp_jaxpr(p, mask, False), primals, nonzero(tangents)
        )
        return (
            super().jvp(primals, tangents, params) if results is None else split_tangents(*results)
        )

    def masked(self, operands, lives, params):
        # The call is kept as a kernel, so nothing is known of its results' elements.
        return unknown(bind(self, *operands, params=params))

    def batch(self, axis, operands, dims, params):
        results = self._derived(params, lambda p: batch_jaxpr(p, axis, dims), operands, ())
        return super().batch(axis, operands, dims, params) if results is None else results

    def _derived(
        self, params: KernelCallParams, derive: Callable[[Any], Any], *operands: Any
    ) -> Any:
        """(results, what `derive` says of them) where the derived call has edges, too; else None."""
        if params.smooth is None:
            return None
        # Both programs are derived; they still belong together only if they agree in constants and mask.
        ours, smooth = derive(params.jaxpr.jaxpr), derive(params.smooth.jaxpr)
        if ours.consts or smooth.consts or ours.mask != smooth.mask:
            return None
        new = params._replace(jaxpr=ours.program, smooth=smooth.program, is_own=False)
        return bind(self, *chain(*operands), params=new), ours.mask


pallas_call_p = KernelCall()


def pallas_call(
    kernel: Function,
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: Mapping[str, str] | None = None,
) -> Function:
    """A function of arrays that runs `kernel` once for each point of a grid, with references to blocks of the arrays.

    `kernel` gets references to the prefetched scalars, then to the blocks of the inputs, of the results, and to scratch. It
    reads and writes them, and returns nothing. `out_shape` has the shapes and dtypes of the results: one, or a tree. Specs
    are trees as those of the arrays; where none is given, the kernel sees the whole array. Programs run in the order of
    the grid, the last axis fastest. Elements of blocks beyond the edge of the array are undefined, and dropped where
    they are written; so are results before something is written: NaN, the least integer, 0 or False.

    `grid` and the other parts may be given as a `grid_spec`. Sizes of the grid may be traced, and pairs of a name and a size.
    `input_output_aliases` say which input a result begins as. Without a device that has kernels of its own the call
    is compiled as any other program: `debug`, `metadata`, most of `compiler_params` and other values of `interpret` change nothing. With
    `interpret=tpu.InterpretParams()` it runs in a simulator of memories, semaphores and copies, which may go to other devices.

    Raises: ArgumentValueError for a grid with which blocks of results are never written, written by several programs of an
    axis that `compiler_params` calls parallel, left and visited again, or for blocks outside of their array.

    >>> def add(x_ref, y_ref, o_ref):
    ...     o_ref[...] = x_ref[...] + y_ref[...]
    >>> block = BlockSpec((2,), lambda i: (i,))
    >>> x = np.arange(4, dtype=np.float32)
    >>> pallas_call(add, x, grid=2, in_specs=[block, block], out_specs=block)(x, x)
    Array([0., 2., 4., 6.], dtype=float32)
    """
    check_callable(kernel, "pallas_call")
    own_name = name or name_of(kernel)
    if grid_spec is not None:
        given = (grid, in_specs, out_specs, scratch_shapes)
        if any(
            a is not b and a != b
            for a, b in strict_zip(given, ((), no_block_spec, no_block_spec, ()))
        ):
            raise ArgumentValueError(
                "pallas_call takes either a grid_spec, or grid, in_specs, out_specs and scratch_shapes."
            )
        stated = grid_spec
    else:
        stated = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    call = KernelDescription(
        kernel,
        own_name,
        out_shape,
        stated,
        dict(input_output_aliases),
        compiler_params,
        cost_estimate,
        interpret,
    )

    def run(*args: Any) -> Any:
        return call(*args)

    run.__name__ = run.__qualname__ = own_name
    return jit(run, inline=True)


def _without_axes(operands: Values) -> list[Any]:
    """The types of operands, without the axes over which they vary."""
    return [
        a.update(varying=frozenset()) if type(a) is ShapedArray else a for a in types_of(operands)
    ]


class KernelDescription(NamedTuple):
    """The user's specification of a kernel and its grid."""

    function: Function
    name: str
    out_shape: Any
    spec: GridSpec
    aliases: dict[int, int]
    compiler_params: Any
    cost: Any
    interpret: Any
    thread_axis: int | None = None
    """The axis of the grid along which programs are threads of a block."""
    function_name: str = "pallas_call"
    """What the user has called."""

    @property
    def simulator(self) -> InterpretParams | None:
        """How the kernel is simulated; None if it is compiled."""
        if isinstance(self.compiler_params, gpu.CompilerParams):
            return gpu_simulation_of(self.interpret)
        if isinstance(self.interpret, GpuInterpretParams):
            raise ArgumentTypeError(
                f"{self.caller}: the simulator of GPUs runs kernels for them.",
                do="State that it is one: `compiler_params=mosaic_gpu.CompilerParams()`.",
            )
        is_of_gpus = isinstance(self.compiler_params, triton.CompilerParams)
        return None if is_of_gpus else simulation_of(self.interpret)

    @property
    def caller(self) -> str:
        """How messages name the call."""
        return f"{self.function_name} of `{self.name}`"

    def __call__(self, *args: Any) -> Any:
        kernel, operands, out_tree, written = self._kernel(args)
        avals, debug = _without_axes(operands), DebugInfo("pallas_call", self.name)
        simulator = self.simulator
        if simulator is None and waits_for_threads(kernel):
            simulator = GpuInterpretParams(detect_races=True)
        if simulator is not None:
            return self._simulated(kernel, simulator, operands, out_tree, written)
        with unchecked_axes():
            program, consts = stage_open(kernel.run, avals, debug)
        smooth = None
        if kernel.has_edges:
            with unchecked_axes():
                smooth, same = stage_open(functools.partial(kernel.run, edge=zeros), avals, debug)
            # One list of operands serves both programs, so they must have the same constants.
            smooth = smooth if [*map(id, same)] == [*map(id, consts)] else None
        params = KernelCallParams(program, kernel, self.name, smooth)
        results = bind(pallas_call_p, *consts, *operands, params=params)
        if sites := kernel.all_sites:
            *results, failure = results
            guard(failure[0], [failure] * len(sites), sites)
        first = kernel.grid.count(None)  # in front of the scalars are the traced sizes of the grid
        scalars: Values = operands[first : first + len(kernel.scalars)]
        # With `disable_bounds_checks` users promise that the blocks which data choose are right, and get no check of them.
        is_stated = getattr(kernel.compiler_params, "disable_bounds_checks", False)
        for i, mapping in enumerate(() if is_stated else kernel.results):
            parallel = sorted(kernel.parallel)
            check_visits_when_run(self.caller, mapping, kernel.grid, parallel, scalars)
            check_traced_grid_when_run(
                self.caller,
                mapping,
                kernel.grid,
                operands[:first],
                parallel,
                is_complete=i not in kernel.aliases,
            )
        return self._settled(results, out_tree, written)

    def _simulated(
        self,
        kernel: GridKernel,
        simulator: InterpretParams,
        operands: Values,
        out_tree: Any,
        written: Values,
    ) -> Any:
        """The results of a call that the simulator runs."""
        avals, debug = _without_axes(operands), DebugInfo("pallas_call", self.name)
        n = len(kernel.results)

        def plain(*operands: Any) -> Values:
            return kernel.run(*operands, edge=zeros)[:n]

        # What waits for other threads has no program on values.
        own = None if waits_for_threads(kernel) else plain
        run = functools.partial(late("simulator of kernels"), kernel, simulator, own)
        with unchecked_axes():
            program, consts = stage_open(lambda *xs: run(xs), avals, debug)
        smooth = None
        if kernel.has_edges and not has_copies(kernel.body.jaxpr):
            with unchecked_axes():
                smooth, more = stage_open(plain, avals, debug)
            smooth = None if consts or more else smooth
        # Where nothing runs beside it, the kernel is what debuggers step through.
        is_own = not has_copies(kernel.body.jaxpr)
        waits = self.simulator is None
        params = KernelCallParams(program, kernel, self.name, smooth, is_own, waits)
        results = bind(pallas_call_p, *consts, *operands, params=params)
        return self._settled(results, out_tree, written)

    def _settled(self, results: Values, out_tree: Any, written: Values) -> Any:
        """The user's results; what follows them are the last contents of references from outside."""
        n_results = out_tree.num_leaves
        for ref, value in strict_zip(written, results[n_results:]):
            write(ref, ..., value)
        return out_tree.unflatten(results[:n_results])

    def _kernel(self, args: tuple[Any, ...]) -> tuple[GridKernel, Values, Any, Values]:
        """(the kernel, its operands, the tree of its results, the references from outside that it writes)."""
        n_scalars = self.spec.num_scalar_prefetch
        if len(args) < n_scalars:
            raise ArgumentTypeError(
                f"{self.caller}: the grid spec prefetches {n_scalars} arguments.",
                got=f"{len(args)} arguments",
            )
        # Arguments are the prefetched scalars, then the inputs; operands begin with the traced sizes of the grid.
        scalars, scalar_tree = tree_flatten(args[:n_scalars])
        inputs, in_tree = tree_flatten(args[n_scalars:])
        for x in (*scalars, *inputs):
            if is_reference(x):
                raise ArgumentTypeError(
                    f"{self.caller} takes arrays, and got a reference.",
                    got=type_of(x).text(),
                    do="Pass what it holds, and alias it: `input_output_aliases`.",
                )
        out_shape = tuple(self.out_shape) if isinstance(self.out_shape, list) else self.out_shape
        described, out_tree = tree_flatten(out_shape, is_leaf=lambda x: isinstance(x, MemoryRef))
        out_avals = [_described(self.caller, x) for x in described]
        sizes = [self._size(n) for n in self.spec.grid]
        # `grid` has None in the places of traced sizes, which are `bounds`, in the same order.
        bounds = [n for n in sizes if not isinstance(n, int)]
        grid = tuple([n if isinstance(n, int) else None for n in sizes])
        mapped: list[list[BlockMapping]] = []
        scalar_refs = [abstract_ref(a.strip_weak_type()) for a in _without_axes(scalars)]
        in_avals = [a.strip_weak_type() for a in types_of(inputs)]
        # `mapped` gets two lists, one mapping per input and one per result.
        for kind, specs, tree, avals in (
            ("in_specs", self.spec.in_specs, in_tree, in_avals),
            ("out_specs", self.spec.out_specs, out_tree, out_avals),
        ):
            rows = _specs(self.caller, kind, specs, tree)
            mapped.append(
                [
                    mapping_of(name, spec, aval, len(grid), scalar_refs, scalar_tree)
                    for (name, spec), aval in strict_zip(rows, avals)
                ]
            )
        aliases = self._aliases([*types_of(scalars), *in_avals], out_avals)
        found = with_indices([*mapped[0], *mapped[1]], grid)
        # `found` has the mappings of inputs, then those of results.
        n = len(in_avals)
        scratch_leaves, scratch_tree = tree_flatten(
            self.spec.scratch_shapes, is_leaf=lambda x: hasattr(x, "shape") and hasattr(x, "dtype")
        )
        scratch = [_described(self.caller, x) for x in scratch_leaves]
        # Positions in `scratch` of semaphores, which begin at 0.
        counters = frozenset([i for i, x in enumerate(scratch_leaves) if begins_at_zero(x)])
        semantics = getattr(self.compiler_params, "dimension_semantics", None) or ()
        parallel = frozenset(
            [a for a, s in enumerate(semantics) if is_parallel(s) and a < len(grid)]
        )
        ranks = [len(m.dims) for m in found if m.indices is None]
        layout = Layout(len(grid), max([2, *ranks]))
        body, consts, captured, sites = self._body(
            grid,
            scalar_refs,
            scalar_tree,
            found[:n],
            in_tree,
            found[n:],
            out_tree,
            scratch,
            [*map(kind_of_scratch, scratch_leaves)],
            scratch_tree,
            layout,
        )
        more = with_indices(
            [
                mapping_of(
                    f"reference {i} from outside",
                    outside,
                    x.aval.inner_aval,
                    len(grid),
                    scalar_refs,
                    scalar_tree,
                )
                for i, x in enumerate(captured.references)
            ],
            grid,
        )
        aliases |= captured.aliases(len(scalars) + n, len(out_avals))
        operands = [*bounds, *scalars, *inputs, *map(get, captured.references)]
        results = [*found[n:], *compress(more, captured.is_written)]
        kernel = GridKernel(
            self.name, grid, body, consts, tuple([a.inner_aval for a in scalar_refs]), (*found[:n], *more), tuple(results),
            tuple(scratch), counters, aliases, parallel, self.cost, layout, sites, self.compiler_params,
            tuple(map(space_of, scratch_leaves)), self._within_block(len(grid)), self.thread_axis,
        )  # fmt: skip
        try:
            self._check(kernel)
        except ArgumentValueError as error:
            error.refused_kernel = kernel
            raise
        return kernel, operands, out_tree, captured.written

    def _within_block(self, n_axes: int) -> frozenset[int] | None:
        """Axes whose programs run in one block of a GPU; None for other kernels."""
        found = gpu.axes_within_block(self.compiler_params, n_axes)
        if found is not None and self.thread_axis is not None:
            found = found | {self.thread_axis}
        return found

    def _size(self, n: Any) -> Any:
        """A size of the grid: an int, or a scalar operand."""
        if isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0:
            return int(n)
        if isinstance(n, Symbol):
            return n.as_value()
        aval = type_of(n) if hasattr(n, "dtype") else None
        if aval is None or aval.shape or aval.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"{self.caller}: a size of the grid is an integer.",
                got=f"grid {self.spec.grid!r:.80}",
            )
        return n

    def _aliases(self, avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[int, int]:
        """The input of each aliased result."""
        found: dict[int, int] = {}
        # The user states results by input; `found` has inputs by result.
        for i, o in self.aliases.items():
            if not (0 <= i < len(avals) and 0 <= o < len(out_avals)) or o in found:
                raise ArgumentValueError(
                    f"{self.caller}: input_output_aliases pair inputs and results by number, each once.",
                    got=f"{self.aliases} for {len(avals)} inputs, {len(out_avals)} results",
                )
            a, b = avals[i], out_avals[o]
            if a.shape != b.shape or a.dtype != b.dtype:
                raise ArgumentValueError(
                    f"{self.caller}: an input and a result are aliased that have other types.",
                    got=f"input {i}: {a.text()}, result {o}: {b.text()}",
                )
            found[o] = i
        return found

    def _body(
        self,
        grid,
        scalars,
        scalar_tree,
        inputs,
        in_tree,
        results,
        out_tree,
        scratch,
        kinds,
        scratch_tree,
        layout,
    ) -> tuple[ClosedJaxpr, Values, Captured, tuple[CheckSite, ...]]:
        """The kernel as a program: of constants, the position in the grid, traced bounds, and references; the constants, the
        references from outside, and what may fail in it. With that it takes a reference to its failure at the end.
        """
        # Types of the references, in the order of the kernel's arguments: scalars, inputs, results, scratch.
        refs = [
            *scalars,
            *[
                abstract_ref(
                    m.block_aval, kind_of_block(self.compiler_params, m.spec, m.block_aval)
                )
                for m in (*inputs, *results)
            ],
            *[abstract_ref(a, kind) for a, kind in strict_zip(scratch, kinds)],
            abstract_ref(layout.aval),
        ]
        sites: list[CheckSite] = []
        n_dynamic = grid.count(None)
        trees = (scalar_tree, in_tree, out_tree, scratch_tree)

        def run(*values: Any) -> Values:
            # `values` are the position along each axis, the traced sizes, then the references.
            ids, bounds = values[: len(grid)], iter(values[len(grid) :])
            sizes = tuple([next(bounds) if n is None else n for n in grid])
            # References by group, each in the tree of the user's arrays, or types of scratch.
            parts, start = [], len(grid) + n_dynamic
            for tree in trees:
                parts.append(tree.unflatten(values[start : start + tree.num_leaves]))
                start += tree.num_leaves
            scalar_refs, in_refs, out_refs, scratch_refs = parts
            outs = out_refs if isinstance(out_refs, (tuple, list)) else (out_refs,)
            # Scratch in a dict is passed by name, else by position after the results.
            keywords = scratch_refs if isinstance(scratch_refs, dict) else {}
            more = (
                ()
                if keywords
                else scratch_refs
                if isinstance(scratch_refs, (tuple, list))
                else (scratch_refs,)
            )
            failures = Failures(layout, values[-1], ids, sites)
            names = self.spec.grid_names
            thread_name = None if self.thread_axis is None or names is None else names[-1]
            self._check_arguments((*scalar_refs, *in_refs, *outs, *more), keywords, trees)
            with within(GridPosition(ids, sizes, names, failures, thread_name)):
                result = self.function(*scalar_refs, *in_refs, *outs, *more, **keywords)
            if result is not None:
                raise ArgumentTypeError(
                    f"{self.caller}: a kernel must return None.",
                    got=f"returned {_named_type(result)}",
                    do="Write to the references of the results: `o_ref[...] = value`.",
                )
            return []

        avals = [*[INDEX] * (len(grid) + n_dynamic), *refs]
        # In front of the function's arguments are the position and bounds, after them is the failure.
        names = lambda: [*[""] * (len(grid) + n_dynamic), *self._argument_names(trees), ""]
        # What is written to references isn't known yet, so that types say nothing of axes (`PositionCall`).
        with programs_of_kernel(), unchecked_axes():
            debug = DebugInfo("pallas_call", source_of(self.function, self.name), names)
            body, consts = stage_open(run, avals, debug)
        arrays = [x for x in consts if not isinstance(x, np.ndarray) and not is_reference(x)]
        if arrays:
            raise ArgumentValueError(
                f"{self.caller}: the kernel uses arrays from outside.",
                got=[type_of(x).text() for x in arrays[:4]],
                do="Pass them as inputs.",
            )
        if not sites:
            body = rearrange_program(body, range(len(body.jaxpr.invars) - 1))
        n_front = len(grid) + n_dynamic + len(scalars) + len(inputs)
        body, consts, captured = with_captured(body, consts, n_front, len(results))
        return body, consts, captured, tuple(sites)

    def _check_arguments(
        self, references: Sequence[Any], keywords: Mapping[str, Any], trees: Sequence[Any]
    ) -> None:
        """Raise ArgumentTypeError if the kernel takes other arguments than the references that it gets."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # of a builtin
            return
        try:
            signature.bind(*references, **keywords)
        except TypeError as error:
            kinds = ("prefetched scalars", "inputs", "results", "scratch")
            counts = [
                f"{tree.num_leaves} {kind}"
                for tree, kind in strict_zip(trees, kinds)
                if tree.num_leaves
            ]
            raise ArgumentTypeError(
                f"{self.caller}: the kernel takes other arguments than the references that it gets.",
                got=f"{error}; it gets those of {', '.join(counts)}, in this order",
            ) from None

    def _argument_names(self, trees: Sequence[Any]) -> Sequence[str]:
        """A name for each reference, such as `x_ref`; empty if the function's parameters have no names."""
        scalars, inputs, results, scratch = [
            tree.unflatten([0] * tree.num_leaves) for tree in trees
        ]
        outs = results if isinstance(results, (tuple, list)) else (results,)
        keywords = scratch if isinstance(scratch, dict) else {}
        more = () if keywords else scratch if isinstance(scratch, (tuple, list)) else (scratch,)
        return argument_paths(self.function, (*scalars, *inputs, *outs, *more), keywords)

    def _check(self, kernel: GridKernel) -> None:
        grid = kernel.grid
        check_counters(self.caller, kernel.body.jaxpr)
        for mapping in (*kernel.inputs, *kernel.results):
            check_inside(self.caller, mapping, grid)
        # Position of the first result among the references.
        first = len(kernel.scalars) + len(kernel.inputs)
        for i, mapping in enumerate(kernel.results):
            # An aliased result begins as its input, so blocks that no program writes have values.
            is_complete = i not in kernel.aliases
            if is_complete and first + i not in kernel.written:
                raise ArgumentValueError(
                    f"{self.caller}: the kernel never writes {mapping.name}.",
                    got=f"array of type {mapping.aval.text()}",
                    do="Write to its reference: `o_ref[...] = value`.",
                )
            check_written(
                self.caller, mapping, grid, sorted(kernel.parallel), is_complete=is_complete
            )


def _named_type(x: Any) -> str:
    """The type of an array, or the class of anything else."""
    return type_of(x).text() if hasattr(x, "dtype") else type(x).__name__


def _described(caller: str, x: Any) -> Any:
    """The type of an array that `x` describes by its shape and dtype."""
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ArgumentTypeError(
            f"{caller}: results and scratch are described by something with shape and dtype.",
            got=f"got {x!r:.60}",
            do="`jax.ShapeDtypeStruct(shape, dtype)`, or for scratch a memory space with a shape and a dtype.",
        )
    return shaped_array(tuple(x.shape), dtypes.canonicalize(x.dtype))


def _specs(caller: str, kind: str, specs: Any, tree: Any) -> list[tuple[str, BlockSpec]]:
    """(a name, the spec) for each leaf of `tree`, from a tree of specs that is like it or a prefix."""
    n = tree.num_leaves
    if isinstance(specs, NoBlockSpec) or specs is None:
        return [(f"{kind}[{i}]", whole) for i in range(n)]
    if isinstance(specs, list):
        specs = tuple(specs)
    if tree == tree_structure(0):
        # A single array: its spec, alone or in a tuple.
        leaves = list(specs) if isinstance(specs, tuple) and len(specs) == 1 else [specs]
    else:
        leaves = flatten_up_to(tree, specs, caller=caller, name=kind)
    names = [keystr(path) for path in leaf_paths(tree)]
    rows = []
    for name, leaf in strict_zip(names, leaves):
        if isinstance(leaf, Space):
            leaf = whole.replace(memory_space=leaf)
        if isinstance(leaf, NoBlockSpec) or leaf is None:
            leaf = whole
        if not isinstance(leaf, BlockSpec):
            raise ArgumentTypeError(
                f"{caller}: {kind}{name} is no BlockSpec.", got=f"got {leaf!r:.60}"
            )
        rows.append((f"{kind}{name}", leaf))
    return rows
