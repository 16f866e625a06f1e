"""Primitives that hold programs: rules that follow from slots, calls of one program, and calls that have a name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    EffectsError,
    Function,
    Ints,
    JAXTypeError,
    Shape,
    strict_zip,
    tree_flatten,
    wrapping,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    ClosedJaxpr,
    Equation,
    Group,
    Jaxpr,
    Linearized,
    Mask,
    OneProgram,
    OnReferences,
    Operands,
    P,
    Primitive,
    Programs,
    Results,
    Role,
    Shown,
    Slot,
    Slots,
    Values,
    called,
    inlined,
    rearranged,
    remove_dead_equations,
)
from pellucid._machine.lowering.custom_calls import typed_attribute
from pellucid._machine.primitives import broadcast_in_dim, select_n
from pellucid._machine.tracing import Cell, Tracer, bind, discharged, held, type_of, types_of
from pellucid._machine.transforms import (
    WORTH_AN_EQUATION,
    D,
    Derived,
    Worth,
    batch_jaxpr,
    check_callable,
    checked_leaves,
    cotangents_of,
    jvp_jaxpr,
    linear_parts,
    linearize_jaxpr,
    nonzero,
    nonzero_mask,
    paired,
    remembered,
    transpose_jaxpr,
)
from pellucid._machine.xla.mlir import ir

from .bodies import traced


class Structured(OnReferences, Programs[P]):
    """A primitive that declares `slots` and their inverse, `with_slots`.

    Each program takes a group of constants first.
    """

    traits = CONTROL

    def slots(self, params) -> Slots:
        raise self.missing("slots")

    def discharge(self, operands, params):
        # References that a loop writes are carried, in front; those that a branch writes are further results.
        slots = self.slots(params)
        groups = slots.split(operands)
        inputs = [slots.gathered(slot, groups) for slot in slots.programs]
        bodies = [
            discharged(slot.program.jaxpr, values)
            for slot, values in strict_zip(slots.programs, inputs)
        ]
        ids = {id(x[i]) for body, x in strict_zip(bodies, inputs) for i in body.written}
        cells: list[Cell] = [*{id(x): x for x in operands if id(x) in ids}.values()]
        # An input's key: the id of a written cell, or minus the position of another operand.
        keys = slots.split([id(x) if id(x) in ids else -i for i, x in enumerate(operands)])
        values = dict(strict_zip(chain(*keys), held(operands)))
        new_keys = keys
        for carry, _ in slots.carries:
            new_keys = [[k for k in group if k not in ids] for group in keys]
            new_keys[carry] = [*map(id, cells), *keys[carry]]
        opened = []
        for slot, body in strict_zip(slots.programs, bodies):
            if body.written and slot.is_predicate:
                raise EffectsError(
                    "the condition of a while_loop can't write to a reference.",
                    got=", ".join(slot.program.in_avals[i].text() for i in body.written),
                    do="Write to it in the body.",
                )
            own_keys, n = slots.gathered(slot, keys), len(body.consts)
            positions = {key: n + i for i, key in enumerate(own_keys)}
            m = len(body.program.out_avals) - len(body.written)
            finals = {own_keys[i]: m + j for j, i in enumerate(body.written)}
            written = [] if slot.is_predicate else map(id, cells)
            program = rearranged(
                body.program,
                [
                    *range(n),
                    *(
                        positions[k] if k in positions else type_of(values[k])
                        for k in slots.gathered(slot, new_keys)
                    ),
                ],
                [*(finals[k] if k in finals else ~positions[k] for k in written), *range(m)],
            )
            opened.append((program, body.consts))
        new_groups = [[values[k] for k in group] for group in new_keys]
        results = bind_programs(self, params, slots, new_groups, opened)
        for cell, value in zip(cells, results, strict=False):
            cell.value = value
        return results[len(cells) :]

    def dead_code(self, used, equation):
        slots = self.slots(equation.params)
        first, *others = [slot.program.jaxpr for slot in slots.programs]
        key = ("dead code", tuple(used), slots.operands, tuple(others))
        programs, used_operands, used_results = first.remembered(key, lambda: _pruned(slots, used))
        if programs is None:
            return used_operands, equation
        if not any(used) and not any(program.effects for program in programs):
            return used_operands, None
        pruned = slots._replace(
            operands=_resized(slots.operands, map(sum, slots.split(used_operands))),
            results=_resized(slots.results, map(sum, slots.split_results(used_results))),
            programs=_with_programs(slots, programs),
        )
        return used_operands, equation.replace(
            operands=list(compress(equation.operands, used_operands)),
            results=list(compress(equation.results, used_results)),
            params=self.with_slots(equation.params, pruned),
        )


def _resized(groups: Sequence[Group], sizes: Iterable[int]) -> tuple[Group, ...]:
    """`groups` with other sizes."""
    return tuple([group._replace(size=n) for group, n in strict_zip(groups, sizes)])


def _with_programs(slots: Slots, programs: Iterable[ClosedJaxpr]) -> tuple[Slot, ...]:
    """The slots with other programs."""
    return tuple([s._replace(program=p) for s, p in strict_zip(slots.programs, programs)])


def _pruned(slots: Slots, used: Mask) -> tuple[list[ClosedJaxpr] | None, list[bool], list[bool]]:
    """(programs for the `used` results, which operands they take, which results they give).

    Carries that a program needs for the next run are among the results. None stands for unchanged programs.
    """
    results = slots.split_results(used)
    needed = [[group.role is Role.INDEX] * group.size for group in slots.operands]
    pruned: list[Jaxpr] = []
    is_settled = False
    while not is_settled:
        is_settled, pruned = True, []
        for slot in slots.programs:
            mask = None if slot.is_predicate else [u for g in slot.gives for u in results[g]]
            jaxpr, inputs = remove_dead_equations(slot.program.jaxpr, mask)
            pruned.append(jaxpr)
            for group, flags in slots.taken(slot, inputs).items():
                needed[group] = [a or b for a, b in strict_zip(needed[group], flags)]
        for i, j in slots.carries:
            carried = [a or b for a, b in strict_zip(results[j], needed[i])]
            is_settled = is_settled and carried == results[j]
            results[j] = needed[i] = carried
    used_operands, used_results = [*chain(*needed)], [*chain(*results)]
    originals = [slot.program.jaxpr for slot in slots.programs]
    is_same = [a.equations == b.equations for a, b in strict_zip(pruned, originals)]
    if all(used_operands) and all(used_results) and all(is_same):
        return None, used_operands, used_results
    programs = [
        ClosedJaxpr(jaxpr.replace(invars=list(compress(full.invars, slots.gathered(slot, needed)))))
        for slot, jaxpr, full in strict_zip(slots.programs, pruned, originals)
    ]
    return programs, used_operands, used_results


# Equations with other programs ------------------------------------------------------------------------------


def bind_programs(
    primitive: Structured[P],
    params: P,
    slots: Slots,
    groups: Sequence[Operands],
    opened: Sequence[Opened],
) -> Results:
    """Results of an equation with the programs `opened` in the slots, and the operands `groups`.

    The constants of a program become operands in front of the first group that it takes.
    """
    new_groups, programs = [*groups], [program for program, *_ in opened]
    for home in {slot.takes[0] for slot in slots.programs}:
        here = [i for i, slot in enumerate(slots.programs) if slot.takes[0] == home]
        shared, values = with_common_consts([opened[i] for i in here])
        new_groups[home] = [*values, *groups[home]]
        for i, program in strict_zip(here, shared):
            programs[i] = program
    new = slots._replace(
        operands=_resized(slots.operands, map(len, new_groups)),
        programs=_with_programs(slots, programs),
    )
    return bind(primitive, *chain(*new_groups), params=primitive.with_slots(params, new))


Opened: TypeAlias = tuple[Any, ...]
"""A program without constants, the values of its first inputs, which were its constants, and perhaps more: a `Derived`,
a `Body`, the result of `stage_open`."""


def with_common_consts(opened: Sequence[Opened]) -> tuple[tuple[ClosedJaxpr, ...], Values]:
    """The programs with all their constants, equal objects once, in front of their common inputs; and these constants."""
    values = {id(x): x for _, consts, *_ in opened for x in consts}
    positions = {key: i for i, key in enumerate(values)}
    avals = [type_of(x) for x in values.values()]
    return tuple(
        [
            with_common_inputs(program, [positions[id(x)] for x in consts], avals)
            for program, consts, *_ in opened
        ]
    ), [*values.values()]


def with_common_inputs(program: ClosedJaxpr, positions: Ints, avals: Avals) -> ClosedJaxpr:
    """The program with inputs of types `avals` in front, of which its first inputs are those at `positions`."""
    front: Values = [*avals]
    for i, position in enumerate(positions):
        front[position] = i
    return rearranged(program, [*front, *range(len(positions), len(program.jaxpr.invars))])


# What derived programs share --------------------------------------------------------------------------------


def marks(derived: Any) -> list[bool]:
    """For each result of a derived program, whether it has a tangent, a cotangent or a batch axis."""
    mask = derived.mask if type(derived) is Derived else derived.nonzero_out
    return [m is not None and m is not False for m in mask]  # a batch axis may be 0


def remembered_on_program(derive: Callable[..., D]) -> Callable[..., D]:
    """Decorator of a function of params and further facts, whose result is cached on the program of the params."""

    @functools.wraps(derive)
    def found_or_derived(params: Any, *facts: Any) -> D:
        key = (derive.__name__.replace("_", " "), params._replace(jaxpr=None), *facts)
        return remembered(params.jaxpr.jaxpr, key, lambda: derive(params, *facts))

    return found_or_derived


def with_settled_carry(
    derive: Callable[[list[bool]], D], carried: list[bool]
) -> tuple[D, list[bool]]:
    """(what `derive` gives for a mask of carries, the mask), from `carried` on, once a step marks the carries that it takes."""
    while True:
        derived = derive(carried)
        returned = marks(derived)[: len(carried)]
        if returned == carried:
            return derived, returned
        carried = returned


def with_linear_part(
    trace: Any, primitive: Primitive[P], results: Values, mask: Mask, operands: Operands, params: P
) -> tuple[Values, Values]:
    """(results, their tangents): an equation of the linear program gives those that `mask` marks, if there are any.

    `results` may go on with residuals.
    """
    tangents: Results = ()
    if any(mask) or primitive.effects((), params):
        tangents = trace.stage_linear(primitive, operands, params)
    return paired([*results[: len(mask)], *tangents], mask)


def with_forwarded(results: Results, forwarded: Sequence[int | None], operands: Operands) -> Values:
    """All results of a program, from those without results that are inputs: `forwarded` has the operand of each, or None."""
    rest = iter(results)
    return [next(rest) if i is None else operands[i] for i in forwarded]


def without_calls(jaxpr: Jaxpr, excluded: Primitive | None = None) -> Jaxpr:
    """The program with calls written out, but for those by the primitive `excluded`; remembered."""

    def body_of(equation: Equation) -> ClosedJaxpr | None:
        body = called(equation.primitive, equation.params)
        return None if body is None or equation.primitive is excluded else ClosedJaxpr(body)

    return jaxpr.remembered(("without calls", excluded), lambda: inlined(jaxpr, body_of)[0])


def chosen(which: Any, *cases: Any) -> Any:
    """One of `cases` for each element along axis 0, as the vector `which` says."""
    shape = type_of(cases[0]).shape
    return select_n(broadcast_in_dim(which, shape, (0,)) if len(shape) > 1 else which, *cases)


# Calls of one program -------------------------------------------------------------------------------


_RECOMPUTE = Worth(least_bytes=WORTH_AN_EQUATION, by_kernel=True)


class Call(Linearized, OneProgram[P], Structured[P]):
    """A call of a program; `params.on(program)` calls one derived from it."""

    def with_slots(self, params: Any, slots):
        return params.on(slots.programs[0].program)

    def called(self, params):
        return self.program(params).jaxpr

    def jvp(self, primals, tangents, params: Any):
        program, consts, mask = jvp_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), False)
        operands = (*consts, *primals, *nonzero(tangents))
        results = bind(self, *operands, params=params.on(program))
        return paired(results, mask)

    def linearize(self, trace, primals, tangents, params):
        parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), recompute=_RECOMPUTE)
        results = bind(self, *parts.consts, *primals, params=params.on(parts.primal))
        n = len(parts.nonzero_out)
        results = [
            *(
                r if i is None else primals[i]
                for r, i in zip(results, parts.forwarded, strict=False)
            ),
            *results[n:],
        ]
        operands = (*parts.residuals(primals, results), *nonzero(tangents))
        linear = params.on(parts.linear)
        return with_linear_part(trace, self, results, parts.nonzero_out, operands, linear)

    def transpose(self, cotangents, operands, params: Any):
        linear, avals, residuals = linear_parts(operands, cotangents)
        program, consts, mask = transpose_jaxpr(params.jaxpr.jaxpr, linear, avals, False)
        results = bind(self, *consts, *residuals, *nonzero(cotangents), params=params.on(program))
        return cotangents_of(operands, results, mask)

    def batch(self, axis, operands, dims, params: Any):
        program, consts, out_dims = batch_jaxpr(params.jaxpr.jaxpr, axis, dims)
        return bind(self, *consts, *operands, params=params.on(program)), out_dims


class ClosedCallParams(NamedTuple):
    """The program, without constants."""

    jaxpr: ClosedJaxpr

    def on(self, program: ClosedJaxpr) -> ClosedCallParams:
        """Params of a call of a program derived from this one."""
        return ClosedCallParams(program)


class ClosedCall(Shown, Call):
    """A plain call: no compilation of its own, no rules but those of its program."""

    name = "closed_call"

    def printed_params(self, equation):
        return {"call_jaxpr": equation.params.jaxpr}


closed_call_p = ClosedCall()


class CoreCall(ClosedCall):
    """A plain call under the name that the reference gives to calls of functions."""

    name = "call"

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Results of a program, `jaxpr`, or of one function of flat values, `subfuns=(function,)`."""
        if "subfuns" in params:
            return late("call of functions")(*operands, **params)
        return super().bind(*operands, **params)


call_p = CoreCall()


# jit -----------------------------------------------------------------------------------------------


class JitParams(NamedTuple):
    """`jaxpr` has no constants: what the function closes over are operands in front of its arguments."""

    name: str
    jaxpr: ClosedJaxpr
    donated_invars: Mask = ()
    inline: bool = False
    keep_unused: bool = False
    in_shardings: tuple[Any, ...] | None = None
    out_shardings: tuple[Any, ...] | None = None
    compiler_options: tuple[tuple[str, Any], ...] = ()

    def on(self, program: ClosedJaxpr) -> JitParams:
        """Params of a call of a program derived from this one."""
        return JitParams(
            self.name, program, inline=self.inline, compiler_options=self.compiler_options
        )


class Jit(Shown, Call[JitParams]):
    """A call of a program that is compiled as a function of its own."""

    name = "jit"
    unshown, says_nothing = ("compiler_options",), (None, False, ())

    def lower(self, ctx, operands, params):
        return ctx.call(params.jaxpr.jaxpr, params.name, operands)


jit_p = Jit()


class Defined(Call[P]):
    """A primitive with a definition: `params.as_call()` are params of a `definition`, a call that does the same.

    Transformed, it is the transformed call. Compilers and tools that know it expect all of its operands and results.
    """

    definition: Call = jit_p

    def program(self, params: Any):
        return params.as_call().jaxpr

    @staticmethod
    def _rule_of_definition(name: str) -> Any:
        """A rule, whose last argument are the params, by that of the definition."""
        return lambda self, *args: getattr(self.definition, name)(*args[:-1], args[-1].as_call())

    jvp, linearize, transpose, batch, discharge = map(
        _rule_of_definition, ("jvp", "linearize", "transpose", "batch", "discharge")
    )
    dead_code = Programs.dead_code


# composite ------------------------------------------------------------------------------------------


_NUMBERS = "biuf"
_NAME = re.compile(r"[a-zA-Z]\w*([.][\w$]+)+", re.ASCII)


class ArrayAttribute(NamedTuple):
    """The content of a NumPy array among params: it can be hashed and compared."""

    shape: Shape
    dtype: str
    data: bytes

    @property
    def array(self) -> np.ndarray:
        """The array."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    def __repr__(self) -> str:
        return f"HashableArray({self.array!r})"


class CompositeParams(NamedTuple):
    """`attributes` are triples (name, leaves, structure)."""

    attributes: tuple[tuple[str, tuple[Any, ...], Any], ...]
    jaxpr: ClosedJaxpr
    name: str
    version: int

    def as_call(self) -> JitParams:
        """Params of a call of the decomposition."""
        return JitParams(self.name, self.jaxpr)


class Composite(Defined[CompositeParams]):
    """A named operation, defined by its decomposition."""

    name = "composite"

    def lower(self, ctx, operands, params):
        if ctx.dimensions:  # shapes can't be refined through the reference to the decomposition
            return ctx.call(params.jaxpr.jaxpr, params.name, operands)
        attributes = {}
        for name, leaves, structure in params.attributes:
            arrays = [x.array if isinstance(x, ArrayAttribute) else x for x in leaves]
            if (value := structure.unflatten(arrays)) is not None:
                attributes[name] = typed_attribute(ctx, value)
        symbol = ctx.symbol_of(params.jaxpr.jaxpr, params.name)
        operation = ctx.op(
            "stablehlo.composite",
            ctx.types(ctx.avals_out),
            [*ctx.globals, *operands],
            {
                "name": params.name,
                "decomposition": ir.FlatSymbolRefAttr.get(symbol),
                "composite_attributes": ctx.dictionary(attributes),
                "version": ctx.integer(params.version, 32),
            },
        )
        return list(operation.results)


composite_p = Composite()


def composite(decomposition: Function, name: str, version: int = 0) -> Function:
    """`decomposition` as one operation called `name`, which a compiler that knows it may compute in its own way.

    Positional arguments of the function that is given back are the operands, trees of arrays; keywords are attributes:
    numbers, strings, NumPy arrays, and lists, tuples and dictionaries of them. Keywords that are None are left out.
    Derivatives and batches are those of the decomposition, without the name.

    Raises: ArgumentValueError for another name; ArgumentTypeError for attributes of other types; JAXTypeError for attributes that are traced;
    EffectsError for a decomposition with side effects.

    The function gives results with the structure, the shapes and the dtypes of those of `decomposition`.
    Source: StableHLO specification, `composite`.

    >>> tangent = composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")
    >>> print(f"{tangent(1.0):.4f}")
    1.5574
    """
    check_callable(decomposition, "composite")
    if not _NAME.fullmatch(name):
        raise ArgumentValueError(
            "composite: a name has words of letters, digits and underscores, with a point between them.",
            got=f"name: {name!r}",
            do='Put a name of your own in front, as in "my.operation".',
        )

    @wrapping(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        frozen = tuple([_frozen(name, key, value) for key, value in attributes.items()])
        leaves, in_tree = tree_flatten(args)
        operands = checked_leaves(leaves, "composite", decomposition, args)
        function = functools.partial(decomposition, **attributes) if attributes else decomposition
        body = traced(function, in_tree, types_of(operands), "composite")
        if body.program.effects:
            raise EffectsError(
                f"composite: the decomposition of {name!r} has side effects.",
                got=", ".join(map(repr, body.program.effects)),
            )
        params = CompositeParams(frozen, body.program, name, version)
        return body.out_tree.unflatten(bind(composite_p, *body.consts, *operands, params=params))

    return call


def _frozen(name: str, key: str, value) -> tuple[str, tuple[Any, ...], Any]:
    """An attribute as params keep it."""
    leaves, structure = tree_flatten(value)
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            raise JAXTypeError(
                f"composite: an attribute of {name!r} is known only when the program runs.",
                got=f"{key}: {leaf.aval.text()}",
                do="Pass it as a positional argument.",
            )
        is_number = isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in _NUMBERS
        if not is_number and not isinstance(leaf, (bool, int, float, str, bytes)):
            raise ArgumentTypeError(
                f"composite: an attribute of {name!r} can't be written into the program.",
                got=f"{key}: {type(leaf).__name__}",
                do="Use numbers, strings and NumPy arrays; pass other arrays as positional arguments.",
            )
    arrays = [
        ArrayAttribute(x.shape, x.dtype.str, x.tobytes()) if isinstance(x, np.ndarray) else x
        for x in leaves
    ]
    return key, tuple(arrays), structure
