"""Lowering of whole modules: main function, called functions, locations, tokens, donation."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pellucid._machine.base import Function, Names, ScopeStack, is_user_file, strict_zip
from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import (
    AbstractValue,
    Avals,
    ClosedJaxpr,
    Effect,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Lineage,
    Literal,
    abstract_token,
    shaped_array,
)
from pellucid._machine.sharding import Sharding
from pellucid._machine.tracing import stage_with_constants, use_lineage, without_references
from pellucid._machine.xla import GpuFacts
from pellucid._machine.xla.mlir import ir, location_cache, new_context

from .addends import compute_with_addends
from .dynamic_shapes import SIZE, solved_variables
from .in_place import settle
from .loops import case
from .operations import FRONTEND, Attributes, OperationBuilder, Values
from .selected_products import call_selected_products

_FRAME_LIMIT = 12
_PLATFORM_INDEX = shaped_array((), np.dtype(np.int32))
_WRAPPED_MAIN = "_wrapped_jax_export_main"
"""Name of the program's function in modules where `main` computes the dimension variables."""
OrderedEffects: TypeAlias = tuple[Effect, ...]
"""Ordered effects of a function, which takes and returns a token for each."""
LOWERED = Lineage("lower", ())
"""Lineage of equations made by lowering rules: their origin is the equation being lowered."""


class Origin(NamedTuple):
    """An equation that was lowered."""

    id: int
    source: Any
    primitive: str
    path: str
    """Path of the scopes around it, as in XLA's records."""


class ModuleOptions(NamedTuple):
    """Options of a module besides its program."""

    name: str
    platforms: Names
    """Platforms that the module runs on; if there are several, the first argument of `main` is the index of the current
    one.
    """
    n_partitions: int = 1
    donated: tuple[bool, ...] = ()
    """For each argument, whether its buffer may be reused for results."""
    aliases: tuple[int | None, ...] = ()
    """For each argument, the result that reuses its buffer, if one fits."""
    argument_shardings: tuple[Any, ...] = ()
    result_shardings: tuple[Any, ...] = ()
    argument_names: Names = ()
    result_names: tuple[str | None, ...] = ()
    argument_layouts: tuple[str | None, ...] = ()
    result_layouts: tuple[str | None, ...] = ()
    replicated: Any = None
    """Sharding of a value replicated on all devices of the program."""
    constants: tuple[Any, ...] = ()
    """Constants of the program, unless it takes them as arguments."""
    manual: Any = None
    """The manual region whose body is lowered (`lowering.collectives`); None outside of one."""
    is_exact: bool = False
    """Whether to round products and quotients as in eager operations (`exact.py`)."""
    identifies_equations: bool = True
    """Whether locations contain ids of equations, which differ between processes."""
    equations: Any = None
    """Equations that relate dimension variables to argument sizes (`Symbol.equations`), if there are any."""
    gpu: GpuFacts | None = None
    """Facts of the NVIDIA GPUs that the module runs on, where these are known."""


class LoweredModule(NamedTuple):
    """A lowered StableHLO module, with host callbacks, checks and other data for its executable."""

    module: ir.Module
    context: ir.Context
    host_callbacks: list[Any]
    host_failures: list[list[BaseException] | None]
    keep_alive: list[Any]
    checks: list[Callable[[Any], None]]
    """Checks of the compiled program before it runs."""
    ordered_effects: OrderedEffects
    calls: int
    """Maximum number of calls of any shared function, for XLA's inlining heuristic; 0 to inline all."""
    largest_contraction: float
    """Number of products in the largest matrix multiplication; infinite if one is in a loop."""
    origins: list[Origin]
    """Lowered equations in order, which is the same for equal programs."""


def lower_module(
    jaxpr: Jaxpr, options: ModuleOptions, shardings: Any = None, listener: Any = None
) -> LoweredModule:
    """Lowers `jaxpr`, whose constants must be arguments or in `options`, to a module.

    `shardings` (with `.declare_meshes(ctx)` and `.attribute(sharding, aval)`) converts shardings to Shardy attributes;
    None for programs of one device. `listener` receives the MLIR values of variables: `.begin(jaxpr, values)` constants
    and inputs of each program at each call, `.lowered(equation, values)` results of an equation of the innermost
    started program, and `.end()`. For a listener, calls are inlined, so that each call of a shared program is reported.
    """
    context = new_context()
    with context, ir.Location.unknown(context), use_lineage(LOWERED):
        ctx = LoweringContext(
            context, options.platforms, options=options, sharding_attributes=shardings, manual=options.manual,
            is_exact=options.is_exact,
            location_of=location_cache(_file_of_code, _FRAME_LIMIT, context), listener=listener,
        )  # fmt: skip
        ctx.lower_main(jaxpr)
    return LoweredModule(
        ctx.module, context, ctx.host_callbacks, ctx.host_failures, ctx.keep_alive, ctx.checks, ctx.ordered_effects,
        0 if ctx.is_slow_in_calls else max(ctx.call_counts.values(), default=0), ctx.largest_contraction, ctx.origins,
    )  # fmt: skip


@dataclass(slots=True, eq=False, kw_only=True)
class LoweringContext(OperationBuilder):
    """State of a lowering: the module's functions, and the current equation.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters.mlir import register_lowering
    >>> p = Primitive("negated")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, lambda ctx, x: [ctx.op1("stablehlo.negate", ctx.avals_out[0], [x])])
    >>> pl.jit(p.bind)(np.float32(2))
    Array(-2., dtype=float32)
    """

    options: ModuleOptions
    listener: Any = None
    """Receiver of the values of variables (see `lower_module`), or None."""
    module: ir.Module = field(default_factory=ir.Module.create)
    origins: list[Origin] = field(default_factory=list[Origin])
    functions: dict[Any, str] = field(default_factory=dict[Any, str])
    call_counts: Counter[str] = field(default_factory=Counter[str])
    contractions: dict[str, float] = field(default_factory=dict[str, float])
    """For each function, the number of products in its largest matrix multiplication."""
    names: dict[str, int] = field(default_factory=lambda: {"main": 0})
    """For each function name, the next suffix to use."""
    python_programs: dict[Any, Any] = field(default_factory=dict[Any, Any])
    scopes: dict[int, tuple[ScopeStack, str, Attributes]] = field(
        default_factory=dict[int, tuple[ScopeStack, str, Attributes]]
    )
    """By id of a name stack: the stack, and the result of `scope_facts`."""
    location_of: Any
    """Cache of locations of sources."""
    ordered_effects: OrderedEffects = ()
    global_avals: Avals = ()
    """Types of additional leading arguments of every function in the module."""
    prefix: str = ""
    """Path prefix for names of the current program."""
    path: str = ""
    """Path prefix for the name of the current operation."""
    leaf: str = ""
    """Name of the current operation."""
    source: ir.Location = field(default_factory=ir.Location.unknown)
    """Location with the source and id of the current equation."""

    # Functions ----------------------------------------------------------------------------------

    def lower_main(self, jaxpr: Jaxpr) -> None:
        """Builds `main`."""
        options, attributes = self.options, self.module.operation.attributes
        attributes["sym_name"] = self.string(_identifier(f"jit_{options.name}").rstrip("_"))
        attributes["mhlo.num_partitions"] = self.integer(options.n_partitions, 32)
        attributes["mhlo.num_replicas"] = self.integer(1, 32)
        self.path = f"jit({options.name})/"
        with ir.InsertionPoint(self.module.body):
            if self.sharding_attributes is not None:
                self.sharding_attributes.declare_meshes(self)
            self.ordered_effects = effects = ordered_effects_of(jaxpr.effects)
            self.takes_symbols = options.equations is not None
            self.dimensions = options.equations.variables if self.takes_symbols else ()
            platform = ["_platform_index"] if len(options.platforms) > 1 else []
            self.global_avals = (_PLATFORM_INDEX,) * len(platform) + (SIZE,) * len(self.dimensions)
            marks = [{"jax.global_constant": name} for name in (*platform, *self.dimensions)]
            arguments, results = self.annotations(jaxpr)
            annotations = self._by_value([*marks[: len(platform)], *arguments], results)
            if self.dimensions:
                attributes["jax.uses_shape_polymorphism"] = self.boolean(True)
                self.lower_entry(jaxpr, len(platform), annotations)
                annotations = self._by_value([*marks, *[{}] * len(arguments)], [])
            self.lower_function(
                _WRAPPED_MAIN if self.dimensions else "main", jaxpr, effects, public=not self.dimensions,
                constants=options.constants, attributes=annotations, names=options.argument_names,
            )  # fmt: skip
        settle(self.module, self.self_updates)
        call_selected_products(self)

    def lower_entry(self, jaxpr: Jaxpr, n_platforms: int, attributes: Attributes) -> None:
        """Builds `main` of a program with symbolic dimensions, which computes and checks the dimension variables."""
        self.names[_WRAPPED_MAIN] = 0
        tokens = [abstract_token] * len(self.ordered_effects)
        avals_in = [*self.global_avals[:n_platforms], *tokens, *jaxpr.in_avals]
        avals_out = [*tokens, *jaxpr.out_avals]
        with self.function("main", avals_in, avals_out, attributes, public=True) as arguments:
            platform, values = arguments[:n_platforms], arguments[n_platforms:]
            dimensions = solved_variables(self, self.options.equations, values[len(tokens) :])
            results = self._call(_WRAPPED_MAIN, avals_out, [*platform, *dimensions, *values])
            self.op("func.return", [], results)

    def annotations(self, jaxpr: Jaxpr) -> tuple[list[Attributes], list[Attributes]]:
        """Argument and result attributes of `main`: donation, sharding and names of tokens, arguments and results."""
        options, n_tokens = self.options, len(self.ordered_effects)
        arguments: list[Attributes] = [{} for _ in range(n_tokens)]
        results: list[Attributes] = [{} for _ in range(n_tokens)]
        for alias, donated, aval, sharding, layout in zip_longest(
            options.aliases, options.donated,
            jaxpr.in_avals, options.argument_shardings, options.argument_layouts,
        ):  # fmt: skip
            arguments.append(self._placement(aval, sharding, layout))
            if alias is not None:
                arguments[-1]["tf.aliasing_output"] = self.integer(alias + n_tokens, 32)
            elif donated:
                arguments[-1]["jax.buffer_donor"] = True
        for name, aval, sharding, layout in zip_longest(
            options.result_names, jaxpr.out_avals, options.result_shardings, options.result_layouts
        ):
            results.append(self._placement(aval, sharding, layout))
            if name is not None:
                results[-1]["jax.result_info"] = name
        return arguments, results

    def _placement(
        self, aval: AbstractValue, sharding: Sharding | None, layout: str | None
    ) -> Attributes:
        attributes: Attributes = {}
        if None not in (sharding, self.sharding_attributes) and aval is not abstract_token:
            attributes["sdy.sharding"] = self.sharding_attributes.attribute(sharding, aval)
        kind = None if sharding is None else sharding.memory_kind
        space = getattr(aval, "memory_space", None)
        kind = space.memory_kind if kind is None and space is not None else kind
        if kind not in (None, "device"):
            attributes["mhlo.memory_kind"] = kind
        if layout is not None:
            attributes["mhlo.layout_mode"] = layout
        return attributes

    def _by_value(
        self, arguments: Sequence[Attributes], results: Sequence[Attributes]
    ) -> Attributes:
        """Function attributes that contain those of arguments and results."""
        return {
            name: ir.ArrayAttr.get([self.dictionary(attributes) for attributes in of_values])
            for name, of_values in (("arg_attrs", arguments), ("res_attrs", results))
            if any(of_values)
        }

    def lower_function(
        self, name: str, jaxpr: Jaxpr, effects: OrderedEffects, *, public: bool = False,
        constants: Sequence[Any] = (), attributes: Attributes | None = None, names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Builds a `func.func` whose arguments are the module's globals, tokens for `effects`, and those of `jaxpr`;
        the last ones are named by `names`.
        """
        tokens = [abstract_token] * len(effects)
        avals_in = [*self.global_avals, *tokens, *jaxpr.in_avals]
        avals_out = [*tokens, *jaxpr.out_avals]
        with self.function(name, avals_in, avals_out, attributes, names, public=public) as values:
            outer = self.tokens, self.globals
            self.globals = [values.pop(0) for _ in self.global_avals]
            self.tokens = {effect: values.pop(0) for effect in effects}
            results = self.inline(jaxpr, [self.constant(np.asarray(c)) for c in constants], values)
            self.op("func.return", [], [*(self.tokens[e] for e in effects), *results])
            self.tokens, self.globals = outer

    @contextlib.contextmanager
    def function(
        self, name: str, avals_in: Avals, avals_out: Avals, attributes: Attributes | None = None,
        names: Sequence[str] = (), *, public: bool = False,
    ) -> Generator[list[ir.Value]]:  # fmt: skip
        """Context manager that builds the body of a new `func.func`; yields its arguments."""
        region = self.empty_function(
            name, self.types(avals_in), self.types(avals_out), attributes, public
        )
        block = self.block(region, avals_in, names)
        with ir.InsertionPoint(block):
            yield list(block.arguments)

    def empty_function(
        self, name: str, types_in: list[ir.Type], types_out: list[ir.Type],
        attributes: Attributes | None = None, public: bool = False,
    ) -> ir.Region:  # fmt: skip
        """The empty body region of a new `func.func`."""
        all_attributes = self.attributes({
            "sym_name": name, "sym_visibility": "public" if public else "private",
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types_in, types_out)),
            **(attributes or {}),
        })  # fmt: skip
        function = ir.Operation.create(
            "func.func", regions=1, loc=self.location, attributes=all_attributes
        )
        return function.regions[0]

    def _call(self, symbol: str, avals: Avals, operands: Values) -> list[ir.Value]:
        callee = ir.FlatSymbolRefAttr.get(symbol)
        return list(self.op("func.call", self.types(avals), operands, {"callee": callee}).results)

    def call(self, jaxpr: Jaxpr, name: str, operands: Values, key: Any = None) -> list[ir.Value]:
        """Calls `jaxpr` as a function of the module, which is lowered only once.

        Tokens of ordered effects are passed along.
        """
        scope = None if self.equation is None else self.equation.scope
        path = "/".join(ScopeStack(scope, f"jit({name})").path())
        with self._at(f"{self.prefix}{path}/", ""):
            if self.listener is not None:
                return self.inline(jaxpr, (), operands)
            effects = ordered_effects_of(jaxpr.effects)
            symbol = self.symbol_of(jaxpr, name, key)
            self.call_counts[symbol] += 1
            results = self._call(
                symbol,
                [*[abstract_token] * len(effects), *jaxpr.out_avals],
                [*self.globals, *(self.tokens[e] for e in effects), *operands],
            )
        self.tokens.update(zip(effects, results, strict=False))
        return results[len(effects) :]

    def symbol(self, jaxpr: Jaxpr, name: str) -> str:
        """Symbol `@name` of the function for `jaxpr` (on scalars), for operations that take a function by reference."""
        outer = self.global_avals, self.dimensions, self.platforms
        # Called without the module's globals, so it can't select between platforms.
        self.global_avals, self.dimensions, self.platforms = (), (), self.platforms[:1]
        symbol = self.symbol_of(jaxpr, name)
        self.global_avals, self.dimensions, self.platforms = outer
        return f"@{symbol}"

    def symbol_of(self, jaxpr: Jaxpr, name: str, key: Any = None) -> str:
        """Name of the function to which `jaxpr` is lowered, on first use."""
        key = (jaxpr, key, self.manual, self.platforms)
        symbol = self.functions.get(key)
        if symbol is None:
            symbol = self.functions[key] = self.add_function(
                name, jaxpr, ordered_effects_of(jaxpr.effects)
            )
        self.note_contraction(self.contractions[symbol])
        return symbol

    def add_function(self, name: str, jaxpr: Jaxpr, effects: OrderedEffects, **more: Any) -> str:
        """Lowers `jaxpr` to a new function, like `lower_function`, and returns its unique name based on `name`."""
        symbol = self.unique_name(name)
        outer = self.largest_contraction, self.loop_depth
        self.largest_contraction, self.loop_depth = 0.0, 0
        with ir.InsertionPoint(self.module.body), self._at("", self.leaf):
            self.lower_function(symbol, jaxpr, effects, **more)
        self.contractions[symbol] = self.largest_contraction
        self.largest_contraction, self.loop_depth = outer
        return symbol

    def combination(self, scalars: Avals, fill: Callable[[ir.Region], None]) -> str:
        """Name of a new function that combines two tuples of scalars; `fill` builds its region."""
        name, types = self.unique_name("combination"), self.types(scalars)
        with ir.InsertionPoint(self.module.body):
            region = self.empty_function(name, types * 2, types)
        fill(region)
        returned = list(region.blocks[0].operations)[-1]
        with ir.InsertionPoint(returned):
            self.op("func.return", [], list(returned.operands))
        returned.erase()
        return name

    def symbol_of_module(self, key: Any, name: str, module: Callable[[], ir.Module]) -> str:
        """Moves the functions and meshes of another module here, on first use of `key`; returns the new name of its
        `main`.

        Donation, shardings and argument names of `main` are dropped.
        """
        symbol = self.functions.get(key)
        if symbol is not None:
            return symbol
        operation = module().operation
        moved = {_symbol_of(op): op for op in operation.regions[0].blocks[0].operations}
        self.names |= dict.fromkeys(moved, 0)  # new names must not clash with these
        renamed = {old: self.unique_name(name if old == "main" else old) for old in moved}
        for old, new in renamed.items():
            ir.SymbolTable.replace_all_symbol_uses(old, new, operation)
            moved[old].attributes["sym_name"] = self.string(new)
        main = moved["main"].attributes
        main["sym_visibility"] = self.string("private")
        for attribute in ("arg_attrs", "res_attrs"):
            if attribute in main:
                del main[attribute]
        for op in moved.values():
            op.operation.detach_from_parent()
            self.module.body.append(op)
        self.is_slow_in_calls = True  # platforms are selected where the call is inlined
        symbol = self.functions[key] = renamed["main"]
        return symbol

    def unique_name(self, name: str) -> str:
        """A function name that is unused in the module."""
        symbol = name = _identifier(name)
        count = self.names.get(name, 0)
        while symbol in self.names:
            symbol = f"{name}_{count}"
            count += 1
        self.names |= {symbol: 0, name: count}
        return symbol

    def from_python(
        self, function: Function, operands: Values, params: Any = (), *, has_layouts: bool = True
    ) -> list[ir.Value]:
        """Lowers `function(*operands, *params)`, a definition in terms of other primitives, traced once per (params,
        types).

        Without `has_layouts` its types show no sharding: those of the equation are derived from its own factors, and the compiler places
        what is between operands and results.
        """
        return self.inline_closed(self._program_of(function, params, has_layouts), operands)

    def _program_of(self, function: Function, params: Any, has_layouts: bool = True) -> ClosedJaxpr:
        """The program of a definition for operands of the current equation's types."""
        # Over which axes values vary was checked when the equation was traced; here nothing could be cast to vary.
        avals = tuple([
            aval.update(varying=frozenset()) if getattr(aval, "varying", None) else aval
            for aval in self.avals_in
        ])  # fmt: skip
        if not has_layouts:
            avals = tuple([aval.update(shown_sharding=None) for aval in avals])
        key = (function, params, avals)
        program = self.python_programs.get(key)
        if program is None:
            program = stage_with_constants(lambda *xs: _as_list(function(*xs, *params)), avals)
            jaxpr, consts = without_references(program.jaxpr)
            program = ClosedJaxpr(jaxpr, [*consts, *program.consts])
            self.python_programs[key] = program
        return program

    def composite_from_python(
        self, name: str, function: Function, operands: Values, params: Any, attributes: Attributes
    ) -> list[ir.Value]:
        """The operation `name` of a compiler that knows it, and for others `function(*operands, *params)`, as `from_python`."""
        program = self._program_of(function, params)
        if program.consts or self.dimensions:
            return self.inline_closed(program, operands)
        return self.composite(name, program.jaxpr, operands, attributes)

    def composite(
        self, name: str, jaxpr: Jaxpr, operands: Values, attributes: Attributes, version: int = 0
    ) -> list[ir.Value]:
        """The operation `name`, decomposed as `jaxpr` by compilers that don't know it."""
        stated = {
            "name": name,
            "decomposition": ir.FlatSymbolRefAttr.get(self.symbol_of(jaxpr, name)),
            "composite_attributes": self.dictionary(attributes),
            "version": self.integer(version, 32),
        }
        types = self.types(self.avals_out)
        return list(self.op("stablehlo.composite", types, operands, stated).results)

    # Equations ------------------------------------------------------------------------------------

    def inline_closed(self, program: ClosedJaxpr, operands: Values) -> list[ir.Value]:
        """Lowers `program` like `inline`, with its constants embedded."""
        return self.inline(program.jaxpr, [self.constant(c) for c in program.consts], operands)

    def inline(self, jaxpr: Jaxpr, consts: Values, operands: Values) -> list[ir.Value]:
        """Lowers each equation of `jaxpr` at the insertion point, and returns the results."""
        values: dict[Any, ir.Value] = dict(strict_zip(jaxpr.constvars, consts))
        values.update(strict_zip(jaxpr.invars, operands))
        listener = self.listener
        if listener is not None:
            listener.begin(jaxpr, (*consts, *operands))
        outer = (self.location, self.avals_in, self.avals_out, self.frontend_attributes)
        outer_names = (self.prefix, self.path, self.leaf, self.equation, self.source)
        self.prefix = self.path
        for equation in jaxpr.equations:
            self.enter(equation)
            inputs = [
                self.literal(a) if type(a) is Literal else values[a] for a in equation.operands
            ]
            self.avals_in = tuple([a.aval for a in equation.operands])
            self.avals_out = tuple([v.aval for v in equation.results])
            if len(self.platforms) == 1:
                results = equation.primitive.lower(self, inputs, equation.params)
            else:
                results = self._lower_for_platforms(equation, inputs)
            if self.sharding_attributes is not None:
                # The equations of programs have types of their own.
                if not isinstance(equation.primitive, HigherOrderPrimitive):
                    compute_with_addends(self, inputs, results)
                results = list(map(self.as_typed, results, self.avals_out))
            values.update(strict_zip(equation.results, results))
            if listener is not None:
                listener.lowered(equation, results)
        if listener is not None:
            listener.end()
        self.location, self.avals_in, self.avals_out, self.frontend_attributes = outer
        self.prefix, self.path, self.leaf, self.equation, self.source = outer_names
        return [self.literal(a) if type(a) is Literal else values[a] for a in jaxpr.outvars]

    def jaxpr_body(self, region: ir.Region, program: ClosedJaxpr) -> None:
        """Fills `region` with `program`, which takes the block's arguments, and returns its results."""
        with self.inside(region, program.in_avals) as operands:
            self.op("stablehlo.return", [], self.inline_closed(program, operands))

    def _lower_for_platforms(self, equation: Equation, inputs: Values) -> Values:
        """Lowers an equation once if its rule doesn't read the platform, else once per platform with a selection."""
        tokens, n_updates = self.tokens, len(self.self_updates)
        outer, self.reads_platform = self.reads_platform, False
        trial = self.op("stablehlo.case", [], [self.globals[0]], regions=1)
        with self.inside(trial.regions[0], []):
            results = equation.primitive.lower(self, inputs, equation.params)
        if self.reads_platform:
            del self.self_updates[n_updates:]
            self.tokens = tokens
            branches = [
                functools.partial(self._lower_on, p, equation, inputs) for p in self.platforms
            ]
            effects = ordered_effects_of(equation.effects)
            results = case(self, self.globals[0], self.avals_out, branches, effects)
        else:
            for operation in list(trial.regions[0].blocks[0].operations):
                operation.operation.move_before(trial)
        trial.erase()
        self.reads_platform = outer
        return results

    def _lower_on(self, platform: str, equation: Equation, inputs: Values) -> Values:
        outer, self.platforms = self.platforms, (platform,)
        try:
            return equation.primitive.lower(self, inputs, equation.params)
        finally:
            self.platforms = outer

    def literal(self, literal: Literal) -> ir.Value:
        """A constant for a literal."""
        return self.constant(np.asarray(literal.val, dtype=literal.aval.dtype))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  # of an array

    def named(
        self, scope: str, operation: str | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Context manager that appends `scope`, such as `while/body/`, to the path of the current equation.

        Operations are named `operation`, by default after the equation's primitive.
        """
        return self._at(self.path + scope, self.leaf if operation is None else operation)

    @contextlib.contextmanager
    def _at(self, path: str, leaf: str) -> Generator[None]:
        outer = self.path, self.leaf, self.location
        self.path, self.leaf = path, leaf
        self.location = self._location()
        try:
            yield
        finally:
            self.path, self.leaf, self.location = outer

    def enter(self, equation: Equation) -> None:
        """Makes new operations carry the id, scope, source and metadata of `equation`.

        Equations that a lowering rule makes keep the location of the rule's own equation.
        """
        if equation.lineage is LOWERED:
            return
        self.equation, self.leaf = equation, equation.primitive.name
        path, self.frontend_attributes = self.scope_facts(equation.scope)
        self.path = self.prefix + path
        self.origins.append(Origin(equation.id, equation.source, self.leaf, self.path))
        stack = equation.source
        where = None if stack is None else self.location_of.get(stack)
        if self.options.identifies_equations:
            where = ir.Location.name(f"e{equation.id}:", childLoc=where)
        self.source = where or ir.Location.unknown(self.context)
        self.location = self._location()

    def _location(self) -> ir.Location:
        """Location of new operations: path as in JAX, id of the equation, and its source.

        The id becomes the operation's type in XLA's metadata, `e7`: as part of the name it would split groups in trace
        viewers. XLA drops these types when partitioning, so there the last name of the path has the id, too.
        """
        name = self.path + self.leaf
        is_partitioned = self.sharding_attributes is not None
        if is_partitioned and self.leaf and self.equation and self.options.identifies_equations:
            name = f"{name}#e{self.equation.id}"
        return ir.Location.name(name.removesuffix("/"), childLoc=self.source)

    def scope_facts(self, scope: ScopeStack | None) -> tuple[str, Attributes]:
        """(path prefix of names, attributes with the user's metadata) of operations in `scope`."""
        if scope is None:
            return "", {}
        facts = self.scopes.get(id(scope))
        if facts is None:
            path = "".join(f"{name}/" for name in scope.path())
            texts = scope.all_metadata()
            attributes = {FRONTEND: self.dictionary(texts)} if texts else {}
            facts = self.scopes[id(scope)] = scope, path, attributes
        return facts[1:]


def _file_of_code(code: CodeType) -> str | None:
    return code.co_filename if is_user_file(code.co_filename) else None


def _symbol_of(operation: ir.Operation | ir.OpView) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in name) or "f"


def _as_list(results: Any) -> list[Any]:
    return list(results) if is_list_or_tuple(results) else [results]


def ordered_effects_of(effects: Any) -> OrderedEffects:
    """The ordered effects among `effects`, in deterministic order."""
    return tuple(sorted((e for e in effects if e.ordered), key=repr)) if effects else ()
