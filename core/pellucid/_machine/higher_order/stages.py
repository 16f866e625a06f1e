"""Stages between a call and its result: traced, lowered, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    Keywords,
    Shape,
    by_tool,
    config,
    strict_zip,
    tree_map,
)
from pellucid._machine.base.late import late
from pellucid._machine.compilation.options import hashable_options
from pellucid._machine.compilation.pipeline import CompilationUnit, compile_lowered
from pellucid._machine.ir import (
    ClosedJaxpr,
    Effects,
    Operands,
    ShapedArray,
    Values,
)
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.executable import Executable, cost_analysis, optimized_modules
from pellucid._machine.runtime.transfer import layout_of
from pellucid._machine.sharding.layout import Format, Layout
from pellucid._machine.tracing import (
    FunctionCall,
    FunctionSpec,
    bound_axes,
    check_distinct,
    is_array_like,
    is_reference,
    name_of,
    resolve_arguments,
    stage_with_constants,
    type_of,
)
from pellucid._machine.transforms import check_callable, type_of_attributes
from pellucid._machine.xla import LibraryValues, flatten, hlo, library_types
from pellucid._machine.xla.compile import hlo_cost, to_hlo
from pellucid._machine.xla.mlir import lasting_copy

from .compiled_calls import call_of_executable
from .shape_dtype_struct import ShapeDtypeStruct

# Stages ---------------------------------------------------------------------------------------------


class ArgInfo(NamedTuple):
    """Type of an argument, and whether it is donated.

    >>> pl.jit(lambda x: x + 1, donate_argnums=0).trace(1.0).args_info
    ((ArgInfo(aval=ShapedArray(float32[], weak_type=True), donated=True),), {})
    """

    aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


CompilerOptions: TypeAlias = Mapping[str, Any]
"""XLA options of a compilation, by name."""


@runtime_checkable
class Wrapped(Protocol):
    """A jitted function: can be called, or run stage by stage.

    >>> isinstance(pl.jit(jnp.sin), pl.stages.Wrapped)
    True
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces the function for arguments like these."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Lowers the function to StableHLO for arguments like these."""
        ...


@dataclass(eq=False, repr=False)
class Stage:
    """Base class of stages: structure and types of arguments and results."""

    _jitted: Any
    _program: Any

    @property
    def fun_name(self) -> str:
        """Name of the function."""
        return self._jitted.spec.name

    @property
    def in_tree(self) -> Any:
        """Pytree structure of (positional arguments, keyword arguments)."""
        return self._program.call.tree

    @property
    def out_tree(self) -> Any:
        """Pytree structure of the results."""
        return self._program.out_tree

    @property
    def in_avals(self) -> Any:
        """Types of the arguments, in their pytree structure."""
        return self.in_tree.unflatten(self._program.call.avals)

    @property
    def args_info(self) -> Any:
        """Type and donation of each argument, in their pytree structure."""
        avals = self._program.call.avals
        donated = self._jitted.spec.donated_leaves(self._program.call) or (False,) * len(avals)
        return self.in_tree.unflatten([ArgInfo(a, d) for a, d in strict_zip(avals, donated)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions of donated arguments among the flat arguments."""
        return tuple(
            i for i, d in enumerate(self._jitted.spec.donated_leaves(self._program.call)) if d
        )

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, with specified shardings and layouts, in their pytree structure."""
        avals = self._program.params.jaxpr.out_avals
        nothing = [None] * len(avals)
        shardings, layouts = self._places_of_results()
        places = strict_zip(avals, shardings or nothing, layouts or nothing)
        return self.out_tree.unflatten([struct_of(*place) for place in places])

    def _places_of_results(self) -> tuple[Sequence[Any] | None, Sequence[Any] | None]:
        """(shardings, layouts) of the results given by the user; None if unspecified."""
        return self._program.params.out_shardings, self._program.out_layouts


def struct_of(aval: Any, sharding: Any = None, layout: Any = None) -> Any:
    """The ShapeDtypeStruct of an aval, with the given sharding, or that of its type over Explicit mesh axes.

    A type without shape, such as that of tokens, is returned itself.
    """
    if not hasattr(aval, "shape"):
        return aval
    if sharding is None:
        type_sharding = aval.sharding
        sharding = type_sharding if type_sharding.mesh.explicit_axes else aval.shown_sharding
    if isinstance(layout, Layout):
        sharding = Format(layout, sharding)
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


@dataclass(eq=False, repr=False)
class Traced(Stage):
    """A function traced for certain arguments.

    >>> traced = pl.jit(lambda x: x + 1).trace(1.0)
    >>> traced.jaxpr
    { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """

    _leaves: Operands

    @property
    def out_avals(self) -> Any:
        """Types of the results, in their pytree structure."""
        return self.out_tree.unflatten(self.flat_out_avals)

    @property
    def flat_out_avals(self) -> Sequence[Any]:
        """Types of the flat results."""
        return self._program.params.jaxpr.out_avals

    @property
    def effects(self) -> Effects:
        """Effects of the program."""
        return self._program.params.jaxpr.effects

    @property
    def takes_references(self) -> bool:
        """Whether the program uses references that exist outside of it."""
        return self._program.values.takes_references

    def flat_call(self, *leaves: Any) -> Values:
        """Flat results for flat arguments, under a trace."""
        return self._jitted.stage_call(self._program, leaves)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program, with closed-over values as constants."""
        return self._program.values.closed

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Lowers the program to StableHLO, for the platform of its arguments or for the given platforms.

        A module for several platforms takes the index of the current one as its first argument. A module for other
        platforms than that of its arguments can be read, but not compiled.
        """
        names = platforms.canonical_names(lowering_platforms or ())
        return Lowered(
            self._jitted, self._program, self._jitted.lower(self._program, self._leaves, names)
        )

    def lower_portably(self, lowering_platforms: Sequence[str]) -> CompilationUnit:
        """Lowers the program to StableHLO without references to this process, for export."""
        return self._jitted.lower(self._program, self._leaves, lowering_platforms, is_portable=True)


_DIALECTS = ("stablehlo", "hlo")


@dataclass(eq=False, repr=False)
class Lowered(Stage):
    """A function lowered to StableHLO for certain arguments.

    >>> lowered = pl.jit(lambda x: x + 1).lower(1.0)
    >>> print(lowered.as_text())
    module @jit__lambda ...
        %0 = stablehlo.add %arg0, ... : tensor<f32>
    ...
    """

    _lowered: CompilationUnit
    _module: Any = None

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Text of the module, as StableHLO (default) or HLO; with locations if `debug_info`."""
        if _dialect(dialect) == "hlo":
            return hlo.text(self.compiler_ir("hlo").get_hlo_module(), metadata=debug_info)
        return self._lowered.module.module.operation.get_asm(enable_debug_info=debug_info)  # pyright: ignore[reportReturnType]

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module itself: an MLIR module (kept in memory until the process ends), or an XLA computation for "hlo"."""
        module = self._lowered.module.module
        if _dialect(dialect) == "hlo":
            return to_hlo(module)
        if self._module is None:
            self._module = lasting_copy(module)
        return self._module

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates of flops, bytes and more for the unoptimized program."""
        return hlo_cost(self._lowered.request.placement.client, self.compiler_ir("hlo"))

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compiles the program for its devices; `compiler_options` are added to jit's."""
        lowered = self._lowered
        if compiler_options:
            merged = dict(lowered.request.compiler_options) | dict(compiler_options)
            request = lowered.request._replace(compiler_options=hashable_options(merged))
            lowered = lowered._replace(request=request)
        return Compiled(self._jitted, self._program, compile_lowered(lowered))


def _dialect(dialect: str | None) -> str:
    if dialect is not None and dialect not in _DIALECTS:
        raise ArgumentValueError(
            f"there is no dialect {dialect!r}.", do=f"Use one of {', '.join(_DIALECTS)}."
        )
    return dialect or "stablehlo"


@dataclass(eq=False, repr=False)
class Compiled(Stage):
    """A function compiled for certain arguments, which can be called with arguments of exactly these types.

    Raises: ArgumentTypeError for arguments of other types.

    >>> compiled = pl.jit(lambda x: x + 1).lower(np.ones(2, np.float32)).compile()
    >>> compiled(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    >>> compiled.cost_analysis()["flops"]
    2.0
    """

    _executable: Executable

    def __post_init__(self) -> None:
        self._call = call_of_executable(self._jitted, self._program, self._executable)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    call = __call__

    def as_text(self) -> str:
        """The optimized program, as HLO text."""
        return "\n\n".join(
            module.to_string() for module in optimized_modules(self._executable.loaded)
        )

    def cost_analysis(self) -> dict[str, float] | None:
        """XLA's estimates of flops, bytes and more for the optimized program."""
        costs = cost_analysis(self._executable.loaded)
        return costs[0] if isinstance(costs, (list, tuple)) else costs

    def memory_analysis(self) -> Any:
        """XLA's figures for bytes of arguments, results, temporaries and code."""
        return self._executable.loaded.get_compiled_memory_stats()

    def runtime_executable(self) -> Any:
        """XLA's executable."""
        return self._executable.loaded

    def _places_of_results(self):
        n = self.out_tree.num_leaves  # contents written to references follow
        layouts = self._executable.result_layouts[:n]
        return self._executable.out_shardings[:n], [
            None if x is None else layout_of(x) for x in layouts
        ]

    @property
    def input_shardings(self) -> Any:
        """Required shardings of the arguments, in their pytree structure."""
        return self.in_tree.unflatten(self._executable.argument_shardings)

    @property
    def output_shardings(self) -> Any:
        """Shardings of the results, in their pytree structure."""
        return self.out_tree.unflatten(self._executable.out_shardings)

    @property
    def input_formats(self) -> Any:
        """Required shardings and layouts of the arguments, in their pytree structure; None for unused arguments."""
        executable = self._executable
        layouts = iter(executable.kept_layouts)
        formats = [
            Format(layout_of(next(layouts)), sharding) if is_used else None
            for sharding, is_used in strict_zip(executable.argument_shardings, executable.used)
        ]
        return self.in_tree.unflatten(formats)

    @property
    def output_formats(self) -> Any:
        """Shardings and layouts of the results, in their pytree structure."""
        pairs = strict_zip(self._executable.result_layouts, self._executable.out_shardings)
        return self.out_tree.unflatten([Format(layout_of(x), s) for x, s in pairs])


def _call(spec: FunctionSpec, args: Operands, kwargs: Keywords) -> FunctionCall:
    """A call whose arguments may be any objects with a shape and a dtype."""
    try:
        call = spec.call(args, kwargs)
    except ArgumentTypeError:
        if spec.static_nums or spec.static_names:
            raise
        args, kwargs = tree_map(_as_struct, (tuple(args), kwargs))
        call = spec.call(args, kwargs)
    references = [x for x in call.leaves if is_reference(x) and type(x) is not ShapeDtypeStruct]
    if len(references) > 1:
        check_distinct(f"`{spec.name}`", (), references)
    return call


def _as_struct(x: Any) -> Any:
    aval = None if is_array_like(x) else type_of_attributes(x)
    if aval is None:
        return x
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def trace(jitted: Any, /, *args: Any, **kwargs: Any) -> Traced:
    """Traces the function for these arguments, which may be `ShapeDtypeStruct`s."""
    call = _call(jitted.spec, args, kwargs)
    return Traced(jitted, jitted.traced_function(call), call.leaves)


def lower(jitted: Any, /, *args: Any, **kwargs: Any) -> Lowered:
    """Lowers the function to StableHLO for these arguments, which may be `ShapeDtypeStruct`s."""
    lowering_platforms = kwargs.pop("lowering_platforms", None)
    return trace(jitted, *args, **kwargs).lower(lowering_platforms=lowering_platforms)


def shapes(jitted: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of the function's results for these arguments, without computing them."""
    return trace(jitted, *args, **kwargs).out_info


def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun(*args, **kwargs)`, without computing it.

    >>> eval_shape(lambda x: x @ x, ShapeDtypeStruct((2, 2), np.float32))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    try:
        if hasattr(fun, "eval_shape") and hasattr(fun, "jitted"):
            return fun.eval_shape(*args, **kwargs)
        _, avals, tree = _trace_call(FunctionSpec(fun, name_of(fun)), args, kwargs)
    except LibraryValues:
        return late("shapes with values of libraries")(fun, args, kwargs)
    return tree.unflatten(map(struct_of, avals))


def _trace_call(
    spec: FunctionSpec, args: Operands, kwargs: Keywords
) -> tuple[ClosedJaxpr, Any, Any]:
    call = _call(spec, args, kwargs)
    trees: list[Any] = []

    def flat(*leaves):
        results, tree = flatten(spec.run(call, leaves))
        trees.append(tree)
        return results

    program = stage_with_constants(flat, call.avals, spec.debug_info(call, trees))
    return program, program.out_avals, trees[0]


def make_jaxpr(
    fun: Function,
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Function:
    """Returns a function that returns the program of `fun` for its arguments, instead of running it.

    >>> print(make_jaxpr(lambda x: -x)(1.0))
    { lambda ; a:f32[]. let b:f32[] = neg a in (b,) }
    """
    check_callable(fun, "make_jaxpr")
    if abstracted_axes is not None:
        raise ArgumentValueError("make_jaxpr: abstracted_axes is not supported.")
    static_nums, static_names = resolve_arguments(fun, static_argnums, None, "static")
    spec = FunctionSpec(fun, name_of(fun), static_nums, static_names)

    @by_tool
    def trace_jaxpr(*args: Any, **kwargs: Any) -> Any:
        with bound_axes(dict(axis_env or ())), config.call_repeated_layers(False):
            program, avals, tree = _trace_call(spec, args, kwargs)
        return (program, tree.unflatten(map(struct_of, avals))) if return_shape else program

    trace_jaxpr.__name__ = f"make_jaxpr({spec.name})"
    trace_jaxpr.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', spec.name)})"
    return trace_jaxpr


def typeof(x: Any) -> Any:
    """The type of an array: shape, dtype, and more.

    >>> typeof(np.zeros(3, np.float32))
    ShapedArray(float32[3])
    """
    handler = library_types.get(type(x))
    return type_of(x) if handler is None else handler(x)
