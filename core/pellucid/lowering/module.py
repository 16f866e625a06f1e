"""A whole module: its main function, the functions it calls, locations, tokens, donation."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from pellucid.base import Function, NameStack, source, strict_zip
from pellucid.ir import (
    Avals,
    Effect,
    Equation,
    Jaxpr,
    Lineage,
    Literal,
    Programs,
    abstract_token,
    shaped_array,
)
from pellucid.tracing import stage, use_lineage
from pellucid.xla.mlir import ir, location_cache, new_context

from .addends import compute_with_addends
from .context import FRONTEND, Attributes, LoweringContext, Values
from .dynamic_shapes import SIZE, solved_variables
from .in_place import settle
from .loops import case

_FRAME_LIMIT = 12
_PLATFORM_INDEX = shaped_array((), np.dtype(np.int32))
_PLATFORM_NAME = "_platform_index"
_GLOBAL = "jax.global_constant"
_WRAPPED_MAIN = "_wrapped_jax_export_main"
"""The function of the program where `main` computes its dimension variables."""
LOWERED = Lineage("lower", ())
"""Of equations that a lowering rule makes: they are where the equation is that is lowered."""


class Origin(NamedTuple):
    """An equation that was lowered."""

    id: int
    source: Any
    primitive: str


class ModuleOptions(NamedTuple):
    """Options of a module besides its program."""

    name: str
    platforms: tuple[str, ...]
    """The platforms that it runs on; with several, `main` takes the position of the one at hand as first argument."""
    n_partitions: int = 1
    donated: tuple[bool, ...] = ()
    """For each argument, whether its memory may hold results."""
    aliases: tuple[int | None, ...] = ()
    """For each argument, the result that takes its memory, where one fits."""
    argument_shardings: tuple[Any, ...] = ()
    result_shardings: tuple[Any, ...] = ()
    argument_names: tuple[str, ...] = ()
    result_names: tuple[str | None, ...] = ()
    argument_layouts: tuple[str | None, ...] = ()
    result_layouts: tuple[str | None, ...] = ()
    replicated: Any = None
    """The placement of a value that each device of the program holds in full."""
    constants: tuple[Any, ...] = ()
    """Values of the program's constants, for a program that doesn't take them as arguments."""
    manual: Any = None
    """The manual region that the program is the inside of, if it is (`lowering.collectives`)."""
    identifies_equations: bool = True
    """Whether locations hold ids of equations, which differ from process to process."""
    equations: Any = None
    """Equations of the dimension variables and the sizes of the arguments (`Symbol.equations`), if there are any."""


class LoweredModule(NamedTuple):
    """A StableHLO module with what must travel beside it."""

    module: ir.Module
    context: ir.Context
    host_callbacks: list[Any]
    host_failures: list[list[Exception] | None]
    keep_alive: list[Any]
    checks: list[Callable[[Any], None]]
    """Checks of the compiled program before it runs."""
    ordered_effects: tuple[Effect, ...]
    calls: int
    """Most times that one shared function is called; it guides how XLA treats calls. 0 where all should be inlined."""
    largest_contraction: float
    """Most products that one matrix multiplication takes, infinite if one is in a loop."""
    origins: list[Origin]
    """The equations in the order in which they were lowered, which is the same for equal programs."""


class Listener(Protocol):
    """Receives the values of a program's variables, and those of each program within it at each place where it runs."""

    def begin(self, jaxpr: Jaxpr, values: Values) -> None:
        """A program begins, inside of the one that began last; these are its constants and inputs."""
        ...

    def lowered(self, equation: Any, values: Values) -> None:
        """These are the results of an equation of the innermost program that has begun."""
        ...

    def end(self) -> None:
        """The innermost program ends."""
        ...


def lower_module(
    jaxpr: Jaxpr, options: ModuleOptions, shardings: Any = None, listener: Listener | None = None
) -> LoweredModule:
    """The module of `jaxpr`, whose constants must be among its arguments or in `options`.

    `shardings` (with `.declare_meshes(ctx)` and `.attribute(sharding, aval)`) turns shardings into Shardy
    attributes; None for programs of one device. With a `listener`, calls are lowered in place, so that it receives
    the values of a program that is called twice at each of the calls.
    """
    context = new_context()
    with context, ir.Location.unknown(context), use_lineage(LOWERED):
        lowering = ModuleLowering(context, options, listener)
        lowering.ctx.sharding_attributes = shardings
        lowering.ctx.replicated = options.replicated
        lowering.ctx.manual = options.manual
        module = lowering.lower_main(jaxpr, options)
    return LoweredModule(
        module, context, lowering.ctx.host_callbacks, lowering.ctx.host_failures, lowering.ctx.keep_alive,
        lowering.ctx.checks, lowering.ordered_effects,
        0 if lowering.ctx.is_slow_in_calls else max(lowering.call_counts.values(), default=0),
        lowering.ctx.largest_contraction, lowering.origins,
    )  # fmt: skip


class ModuleLowering:
    """Builds one module."""

    def __init__(
        self, context: ir.Context, options: ModuleOptions, listener: Listener | None = None
    ) -> None:
        self.ctx = LoweringContext(context, options.platforms)
        self.identifies_equations = options.identifies_equations
        self.listener = listener
        self.ctx.module_lowering = self
        self.context = context
        self.module = ir.Module.create()
        self.origins: list[Origin] = []
        self.functions: dict[Any, str] = {}
        self.call_counts: dict[str, int] = {}
        self.contractions: dict[str, float] = {}
        """By function, the most products that one matrix multiplication in it takes."""
        self.symbols = {"main"}
        """Names of the module's functions."""
        self.names: dict[str, int] = {}
        """By name of a function, the number that the next one of that name gets."""
        self.python_programs: dict[Any, Any] = {}
        self.scopes: dict[int, tuple[NameStack, str, Attributes]] = {}
        """By id of a name stack, that stack and what `scope_facts` gives."""
        self.location_of = location_cache(_file_of_code, _FRAME_LIMIT, context)
        self.ordered_effects: tuple[Effect, ...] = ()
        self.equation: Equation | None = None
        """The equation at hand."""
        self.prefix = ""
        """The path in front of the names of the program at hand."""
        self.path = ""
        """The path in front of the name of the operation at hand."""
        self.leaf = ""
        """The name of the operation at hand."""
        self.source = ir.Location.unknown(context)
        """The source and the id of the equation at hand."""

    # Functions ----------------------------------------------------------------------------------

    def lower_main(self, jaxpr: Jaxpr, options: ModuleOptions) -> ir.Module:
        """Fill the module with `main` and return it."""
        ctx, op = self.ctx, self.module.operation
        op.attributes["sym_name"] = ir.StringAttr.get(
            _identifier(f"jit_{options.name}").rstrip("_")
        )
        op.attributes["mhlo.num_partitions"] = ctx.integer(options.n_partitions, 32)
        op.attributes["mhlo.num_replicas"] = ctx.integer(1, 32)
        self.path = f"jit({options.name})/"
        with ir.InsertionPoint(self.module.body):
            if ctx.sharding_attributes is not None:
                ctx.sharding_attributes.declare_meshes(ctx)
            self.ordered_effects = ordered(jaxpr.effects)
            ctx.dimensions = () if options.equations is None else options.equations.variables
            platform = [_PLATFORM_NAME] if len(options.platforms) > 1 else []
            ctx.global_avals = (_PLATFORM_INDEX,) * len(platform) + (SIZE,) * len(ctx.dimensions)
            annotations = self.annotations(jaxpr, options, platform)
            if ctx.dimensions:
                op.attributes["jax.uses_shape_polymorphism"] = ctx.boolean(True)
                self.lower_entry(jaxpr, options, platform, annotations)
                annotations = self._marked([*platform, *ctx.dimensions], len(jaxpr.invars))
            self.lower_function(
                _WRAPPED_MAIN if ctx.dimensions else "main", jaxpr, self.ordered_effects,
                public=not ctx.dimensions, constants=options.constants, attributes=annotations,
                names=options.argument_names,
            )  # fmt: skip
        settle(self.module, ctx.self_updates)
        return self.module

    def lower_entry(
        self, jaxpr: Jaxpr, options: ModuleOptions, platform: Sequence[str], attributes: Attributes
    ) -> None:
        """The `main` of a program with symbolic dimensions, which computes and checks their variables."""
        ctx = self.ctx
        self.symbols.add(_WRAPPED_MAIN)
        tokens = [abstract_token for _ in self.ordered_effects]
        avals_in = [*(_PLATFORM_INDEX for _ in platform), *tokens, *jaxpr.in_avals]
        avals_out = [*tokens, *jaxpr.out_avals]
        with self.function("main", avals_in, avals_out, attributes, public=True) as arguments:
            n = len(platform)
            dimensions = solved_variables(ctx, options.equations, arguments[n + len(tokens) :])
            call = ctx.op(
                "func.call", ctx.types(avals_out), [*arguments[:n], *dimensions, *arguments[n:]],
                {"callee": ir.FlatSymbolRefAttr.get(_WRAPPED_MAIN)},
            )  # fmt: skip
            ctx.op("func.return", [], list(call.results))

    def _marked(self, global_names: Sequence[str], n_arguments: int) -> Attributes:
        """The attributes of a function whose first arguments hold for the whole module."""
        marks = [{_GLOBAL: self.ctx.string(name)} for name in global_names]
        marks += [{} for _ in range(n_arguments + len(self.ordered_effects))]
        return {"arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get(mark) for mark in marks])}

    def annotations(
        self, jaxpr: Jaxpr, options: ModuleOptions, global_names: Sequence[str]
    ) -> Attributes:
        """Donation, shardings, layouts and names of the arguments and results of `main`."""
        ctx, n_tokens = self.ctx, len(self.ordered_effects)
        arguments: list[Attributes] = [{_GLOBAL: ctx.string(name)} for name in global_names]
        arguments += [{} for _ in range(n_tokens)]
        results: list[Attributes] = [{} for _ in range(n_tokens)]
        for i, aval in enumerate(jaxpr.in_avals):
            attributes: Attributes = {}
            alias = options.aliases[i] if options.aliases else None
            if alias is not None:
                attributes["tf.aliasing_output"] = ctx.integer(alias + n_tokens, 32)
            elif options.donated and options.donated[i]:
                attributes["jax.buffer_donor"] = ctx.boolean(True)
            self._place(attributes, options.argument_shardings, options.argument_layouts, i, aval)
            arguments.append(attributes)
        for i, aval in enumerate(jaxpr.out_avals):
            attributes = {}
            name = options.result_names[i] if options.result_names else None
            if name is not None:
                attributes["jax.result_info"] = ctx.string(name)
            self._place(attributes, options.result_shardings, options.result_layouts, i, aval)
            results.append(attributes)
        return {
            name: ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
            for name, attributes in (("arg_attrs", arguments), ("res_attrs", results))
            if any(attributes)
        }

    def _place(self, attributes: dict[str, Any], shardings, layouts, i: int, aval) -> None:
        if shardings and shardings[i] is not None and self.ctx.sharding_attributes is not None:
            attributes["sdy.sharding"] = self.ctx.sharding_attributes.attribute(shardings[i], aval)
        kind = shardings[i].memory_kind if shardings and shardings[i] is not None else None
        space = getattr(aval, "memory_space", None)
        kind = space.memory_kind if kind is None and space is not None else kind
        if kind not in (None, "device"):
            attributes["mhlo.memory_kind"] = self.ctx.string(kind)
        if layouts and layouts[i] is not None:
            attributes["mhlo.layout_mode"] = self.ctx.string(layouts[i])

    def lower_function(
        self, name: str, jaxpr: Jaxpr, effects: tuple[Effect, ...], *, public: bool = False,
        constants: Sequence[Any] = (), attributes: Mapping[str, ir.Attribute] = MappingProxyType({}),
        names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """A `func.func` of the module's globals, tokens for `effects`, and the arguments of `jaxpr`; the last have `names`."""
        ctx = self.ctx
        avals_in = [*ctx.global_avals, *(abstract_token for _ in effects), *jaxpr.in_avals]
        avals_out = [*(abstract_token for _ in effects), *jaxpr.out_avals]
        with self.function(name, avals_in, avals_out, attributes, names, public=public) as values:
            outer_tokens, outer_globals = ctx.tokens, ctx.globals
            ctx.globals = [values.pop(0) for _ in ctx.global_avals]
            ctx.tokens = dict(zip(effects, values[: len(effects)], strict=True))
            consts = [ctx.constant(np.asarray(c)) for c in constants]
            results = self.lower_equations(jaxpr, consts, values[len(effects) :])
            ctx.op("func.return", [], [*(ctx.tokens[e] for e in effects), *results])
            ctx.tokens, ctx.globals = outer_tokens, outer_globals

    @contextlib.contextmanager
    def function(
        self, name: str, avals_in: Avals, avals_out: Avals,
        attributes: Mapping[str, ir.Attribute] = MappingProxyType({}), names: Sequence[str] = (), *,
        public: bool = False,
    ) -> Iterator[list[ir.Value]]:  # fmt: skip
        """Build a `func.func` in the block, whose arguments are given; it is made at the insertion point."""
        ctx = self.ctx
        function_type = ir.FunctionType.get(ctx.types(avals_in), ctx.types(avals_out))
        function = ir.Operation.create(
            "func.func", regions=1, loc=ctx.location,
            attributes={"sym_name": ctx.string(name), "function_type": ir.TypeAttr.get(function_type),
                        "sym_visibility": ctx.string("public" if public else "private"), **attributes},
        )  # fmt: skip
        block = ctx.block(function.regions[0], avals_in, names)
        with ir.InsertionPoint(block):
            yield list(block.arguments)

    def lower_call(
        self, jaxpr: Jaxpr, name: str, operands: Values, key: Any = None
    ) -> list[ir.Value]:
        """Call `jaxpr` as a function, made at its first call. Tokens of ordered effects go along."""
        scope = None if self.equation is None else self.equation.scope
        path = "/".join(NameStack(scope, f"jit({name})").path())
        with self._at(f"{self.prefix}{path}/", ""):
            return self._lower_call(jaxpr, name, operands, key)

    def _lower_call(self, jaxpr: Jaxpr, name: str, operands: Values, key) -> list[ir.Value]:
        if self.listener is not None:
            return self.lower_equations(jaxpr, (), operands)
        ctx = self.ctx
        effects = ordered(jaxpr.effects)
        symbol = self.symbol(jaxpr, name, key)
        self.call_counts[symbol] = self.call_counts.get(symbol, 0) + 1
        call = ctx.op(
            "func.call",
            ctx.types([*(abstract_token for _ in effects), *jaxpr.out_avals]),
            [*ctx.globals, *(ctx.tokens[e] for e in effects), *operands],
            {"callee": ir.FlatSymbolRefAttr.get(symbol)},
        )
        results = list(call.results)
        ctx.tokens.update(zip(effects, results, strict=False))
        return results[len(effects) :]

    def symbol(self, jaxpr: Jaxpr, name: str, key: Any = None) -> str:
        """The name of the function that `jaxpr` is lowered to, made when first asked for."""
        ctx = self.ctx
        key = (jaxpr, key, ctx.manual, ctx.platforms)
        symbol = self.functions.get(key)
        if symbol is None:
            symbol = self.functions[key] = self.add_function(name, jaxpr, ordered(jaxpr.effects))
        ctx.note_contraction(self.contractions[symbol])
        return symbol

    def add_function(
        self, name: str, jaxpr: Jaxpr, effects: tuple[Effect, ...], **more: Any
    ) -> str:
        """Lower `jaxpr` to a new function of the module, as `lower_function`; its name is `name` where that is free."""
        ctx, symbol = self.ctx, self.unique_name(name)
        avals_in, avals_out = ctx.avals_in, ctx.avals_out
        largest, depth = ctx.largest_contraction, ctx.loop_depth
        ctx.largest_contraction, ctx.loop_depth = 0.0, 0
        with ir.InsertionPoint(self.module.body), self._at("", self.leaf):
            self.lower_function(symbol, jaxpr, effects, **more)
        ctx.avals_in, ctx.avals_out = avals_in, avals_out
        self.contractions[symbol] = ctx.largest_contraction
        ctx.largest_contraction, ctx.loop_depth = largest, depth
        return symbol

    def combination(self, scalars: Avals, fill: Callable[[ir.Region], None]) -> str:
        """The name of a new function that combines two tuples of scalars as the region that `fill` fills."""
        ctx, name = self.ctx, self.unique_name("combination")
        types = ctx.types(scalars)
        with ir.InsertionPoint(self.module.body):
            function = ir.Operation.create(
                "func.func", regions=1, loc=ctx.location,
                attributes={"sym_name": ctx.string(name), "sym_visibility": ctx.string("private"),
                            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types * 2, types))},
            )  # fmt: skip
        fill(function.regions[0])
        returned = list(function.regions[0].blocks[0].operations)[-1]
        with ir.InsertionPoint(returned):
            ctx.op("func.return", [], list(returned.operands))
        returned.erase()
        return name

    def symbol_of_module(self, key: Any, name: str, module: Callable[[], ir.Module]) -> str:
        """The name of the function that is `main` of another module, whose functions and meshes move here.

        That happens when it is first asked for by `key`. Donation, shardings and names of its arguments are dropped.
        """
        symbol = self.functions.get(key)
        if symbol is not None:
            return symbol
        operation = module().operation
        moved = list(operation.regions[0].blocks[0].operations)
        self.symbols.update(_symbol_of(op) for op in moved)  # no new name may be one of these
        renamed = {
            old: self.unique_name(name if old == "main" else old) for old in map(_symbol_of, moved)
        }
        for op in moved:
            old = _symbol_of(op)
            ir.SymbolTable.replace_all_symbol_uses(old, renamed[old], operation)
            op.attributes["sym_name"] = self.ctx.string(renamed[old])
            if old == "main":
                op.attributes["sym_visibility"] = self.ctx.string("private")
                for attribute in ("arg_attrs", "res_attrs"):
                    if attribute in op.attributes:
                        del op.attributes[attribute]
        for op in moved:
            op.operation.detach_from_parent()
            self.module.body.append(op)
        self.ctx.is_slow_in_calls = (
            True  # a choice between platforms is made where the call is inlined
        )
        symbol = self.functions[key] = renamed["main"]
        return symbol

    def unique_name(self, name: str) -> str:
        """A function name that the module doesn't have yet."""
        symbol = name = _identifier(name)
        count = self.names.get(name, 0)
        while symbol in self.symbols:
            symbol = f"{name}_{count}"
            count += 1
        self.names[name] = count
        self.symbols.add(symbol)
        return symbol

    def lower_python(
        self, function: Function, operands: Values, params: Any, avals: tuple[Any, ...]
    ) -> list[ir.Value]:
        """Lower a definition by other primitives, traced once for (function, params, types)."""
        key = (function, params, avals)
        program = self.python_programs.get(key)
        if program is None:
            program = stage(lambda *xs: _listed(function(*xs, *params)), avals)
            self.python_programs[key] = program
        jaxpr, consts = program
        return self.lower_equations(jaxpr, [self.ctx.constant(c) for c in consts], operands)

    # Equations ------------------------------------------------------------------------------------

    def lower_equations(self, jaxpr: Jaxpr, consts: Values, operands: Values) -> list[ir.Value]:
        """Lower each equation at the insertion point; the values of the program's results."""
        ctx = self.ctx
        values: dict[Any, ir.Value] = dict(strict_zip(jaxpr.constvars, consts))
        values.update(strict_zip(jaxpr.invars, operands))
        listener = self.listener
        if listener is not None:
            listener.begin(jaxpr, (*consts, *operands))
        outer = (ctx.location, ctx.avals_in, ctx.avals_out, ctx.frontend_attributes)
        outer_names = (self.prefix, self.path, self.leaf, self.equation, self.source)
        self.prefix = self.path
        for equation in jaxpr.equations:
            self.enter(equation)
            inputs = [
                self.literal(a) if type(a) is Literal else values[a] for a in equation.operands
            ]
            ctx.avals_in = tuple([a.aval for a in equation.operands])
            ctx.avals_out = tuple([v.aval for v in equation.results])
            if len(ctx.platforms) == 1:
                results = equation.primitive.lower(ctx, inputs, equation.params)
            else:
                results = self._lower_for_platforms(equation, inputs)
            if ctx.sharding_attributes is not None:
                # The equations of programs have types of their own.
                if not isinstance(equation.primitive, Programs):
                    compute_with_addends(ctx, inputs, results)
                results = list(map(ctx.as_typed, results, ctx.avals_out))
            values.update(strict_zip(equation.results, results))
            if listener is not None:
                listener.lowered(equation, results)
        if listener is not None:
            listener.end()
        ctx.location, ctx.avals_in, ctx.avals_out, ctx.frontend_attributes = outer
        self.prefix, self.path, self.leaf, self.equation, self.source = outer_names
        return [self.literal(a) if type(a) is Literal else values[a] for a in jaxpr.outvars]

    def _lower_for_platforms(self, equation: Equation, inputs: Values) -> Values:
        """Lower an equation once if its rule doesn't ask for the platform, else as a choice between all platforms."""
        ctx, tokens, n_updates = self.ctx, self.ctx.tokens, len(self.ctx.self_updates)
        outer, ctx.reads_platform = ctx.reads_platform, False
        trial = ctx.op("stablehlo.case", [], [ctx.globals[0]], regions=1)
        with ctx.inside(trial.regions[0], []):
            results = equation.primitive.lower(ctx, inputs, equation.params)
        if not ctx.reads_platform:
            for operation in list(trial.regions[0].blocks[0].operations):
                operation.operation.move_before(trial)
            trial.erase()
            ctx.reads_platform = outer
            return results
        trial.erase()
        del ctx.self_updates[n_updates:]
        ctx.tokens = tokens
        branches = [functools.partial(self._lower_on, p, equation, inputs) for p in ctx.platforms]
        results = case(ctx, ctx.globals[0], ctx.avals_out, branches, ordered(equation.effects))
        ctx.reads_platform = outer
        return results

    def _lower_on(self, platform: str, equation: Equation, inputs: Values) -> Values:
        ctx = self.ctx
        outer, ctx.platforms = ctx.platforms, (platform,)
        try:
            return equation.primitive.lower(ctx, inputs, equation.params)
        finally:
            ctx.platforms = outer

    def literal(self, literal: Literal) -> ir.Value:
        """A constant for a literal."""
        return self.ctx.constant(np.asarray(literal.val, dtype=literal.aval.dtype))  # pyright: ignore[reportAttributeAccessIssue]

    @contextlib.contextmanager
    def named(self, scope: str, operation: str | None = None) -> Iterator[None]:
        """Name what is built in the block: `scope`, as `while/body/`, goes behind the path of the equation at hand.

        Operations are called `operation`, by default as the equation's primitive.
        """
        with self._at(self.path + scope, self.leaf if operation is None else operation):
            yield

    @contextlib.contextmanager
    def _at(self, path: str, leaf: str) -> Iterator[None]:
        ctx = self.ctx
        outer = self.path, self.leaf, ctx.location
        self.path, self.leaf = path, leaf
        ctx.location = self.location()
        try:
            yield
        finally:
            self.path, self.leaf, ctx.location = outer

    def enter(self, equation: Equation) -> None:
        """Let what is built carry the equation's id, scope, source and metadata into the compiled program.

        What a lowering rule defines by other primitives is where its own equation is.
        """
        if equation.lineage is LOWERED:
            return
        ctx = self.ctx
        self.equation, self.leaf = equation, equation.primitive.name
        self.origins.append(Origin(equation.id, equation.source, self.leaf))
        path, ctx.frontend_attributes = self.scope_facts(equation.scope)
        self.path = self.prefix + path
        stack = equation.source
        where = None if stack is None else self.location_of.get(stack)
        if self.identifies_equations:
            where = ir.Location.name(f"e{equation.id}:", childLoc=where)
        self.source = where or ir.Location.unknown(self.context)
        ctx.location = self.location()

    def location(self) -> ir.Location:
        """Where operations built now come from: a path as in the reference, the equation's id, and its source.

        The id becomes the type of the operation in XLA's metadata, `e7`: in names it would split what trace viewers
        group. XLA loses these types where it partitions programs, so there the last name of a path has the id too.
        """
        name = self.path + self.leaf
        is_partitioned = self.ctx.sharding_attributes is not None
        if is_partitioned and self.leaf and self.equation and self.identifies_equations:
            name = f"{name}#e{self.equation.id}"
        return ir.Location.name(name.removesuffix("/"), childLoc=self.source)

    def scope_facts(self, scope: NameStack | None) -> tuple[str, Attributes]:
        """(the path in front of names, the attributes that hold the user's metadata) of operations in `scope`."""
        if scope is None:
            return "", {}
        facts = self.scopes.get(id(scope))
        if facts is None:
            path = "".join(f"{name}/" for name in scope.path())
            texts = {key: self.ctx.string(text) for key, text in scope.all_metadata().items()}
            attributes = {FRONTEND: self.ctx.dictionary(texts)} if texts else {}
            facts = self.scopes[id(scope)] = scope, path, attributes
        return facts[1:]


def _file_of_code(code) -> str | None:
    return code.co_filename if source.is_user_file(code.co_filename) else None


def _symbol_of(operation) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in name) or "f"


def _listed(results) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def ordered(effects: Any) -> tuple[Effect, ...]:
    """The ordered effects among `effects`, in a fixed order."""
    return tuple(sorted((e for e in effects if e.ordered), key=repr)) if effects else ()
