"""Assembly of GPUs in kernels, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ShapeError,
    UnsupportedError,
    strict_zip,
    tree_flatten,
)
from pellucid._machine.ir import Primitive, ShapedArray, Traits, shaped_array
from pellucid._machine.primitives import broadcast_to, convert_element_type, move_axis
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.triton import triton

from .lowering import Lowering, rule


class AssemblyParams(NamedTuple):
    """The text, constraints of its registers, the number of elements of one run, and types of results."""

    asm: str
    constraints: str
    pack: int
    result_types: tuple[ShapedArray, ...]


class InlineAssembly(Primitive[AssemblyParams]):
    """Runs instructions of GPUs for the elements of its operands, which have one shape; nothing else can run them."""

    name = "elementwise_inline_asm"
    traits = Traits(kind="elementwise", flops=1.0, returns_list=True)

    def abstract_eval(self, avals, params):
        return list(params.result_types)

    def batch(self, axis, operands, dims, params):
        full = (axis.size, *params.result_types[0].shape)
        batched = [
            broadcast_to(x, full) if dim is None else move_axis(x, dim, 0)
            for x, dim in strict_zip(operands, dims)
        ]
        types = tuple([aval.update(shape=full) for aval in params.result_types])
        results = bind(self, *batched, params=params._replace(result_types=types))
        return results, [0] * len(results)

    def lower(self, ctx, operands, params):
        raise UnsupportedError(
            "`triton.elementwise_inline_asm` holds instructions of GPUs, which run in kernels lowered to Triton only.",
            got=f"{params.asm!r:.60}",
            do="Ask for Triton: `pallas_call(..., compiler_params=triton.CompilerParams())`, on a GPU; or write the computation "
            "with functions of `numpy`.",
        )


inline_assembly_p = InlineAssembly()


def elementwise_inline_asm(
    asm: str, *, args: Sequence[Any], constraints: str, pack: int, result_shape_dtypes: Any
) -> Any:
    """What instructions of a GPU make of the elements of `args`, as `result_shape_dtypes` says: one struct of shape and dtype, or a tree.

    `asm` is PTX; `$0`, `$1` … are results, then operands, whose registers `constraints` names, such as `"=r,r"`. Each run takes `pack` elements,
    put together to 32 bits. All operands and results have one shape. Raises: ShapeError for others; UnsupportedError where the kernel runs on
    anything but a GPU.

    >>> tanh = lambda x: elementwise_inline_asm(
    ...     "tanh.approx.f32 $0, $1;", args=[x], constraints="=f,f", pack=1, result_shape_dtypes=x)
    >>> pl.eval_shape(tanh, jnp.zeros(8))
    ShapeDtypeStruct(shape=(8,), dtype=float32)
    """
    structs, tree = tree_flatten(result_shape_dtypes)
    types = [shaped_array(tuple(struct.shape), struct.dtype) for struct in structs]
    shapes = {aval.shape for aval in (*map(type_of, args), *types)}
    if len(shapes) > 1:
        raise ShapeError(
            "elementwise_inline_asm: operands and results have one shape.",
            got=", ".join(sorted(map(str, shapes))),
        )
    operands = [convert_element_type(x, type_of(x).dtype) for x in args]
    params = AssemblyParams(asm, constraints, pack, tuple(types))
    return tree.unflatten(bind(inline_assembly_p, *operands, params=params))


@rule(inline_assembly_p)
def _inline_assembly(ctx: Lowering, equation, operands):
    params = equation.params
    [shape] = {r.aval.shape for r in equation.results}
    if not shape:
        raise ctx.unsupported("assembly works on blocks, not on single numbers.")
    operation = triton.ElementwiseInlineAsmOp(
        [ctx.type_of(r.aval) for r in equation.results],
        params.asm,
        params.constraints,
        pure=True,
        packed_element=params.pack,
        args=[ctx.spread(x, shape) for x in operands],
    )
    return list(operation.results)
