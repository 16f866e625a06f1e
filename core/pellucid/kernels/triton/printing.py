"""What kernels print on GPUs: each thread its elements, with the position of the program and of the element in the block."""

from __future__ import annotations

import string

import numpy as np

from pellucid._machine.callbacks.debug import debug_print_p
from pellucid._machine.xla.triton import arith, triton
from pellucid.kernels.lowering.elements import converted, float_bits
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .lowering import Lowering, rule


@rule(debug_print_p)
def _debug_print(ctx: Lowering, equation, operands):
    """One print for each field, behind the text in front of it: numbers have Triton's form, whatever the field says. Text behind
    the last field is left out.
    """
    params = equation.params
    args, keywords = params.in_tree.unflatten([*range(params.in_tree.num_leaves)])
    if params.static_args or params.logging_record is not None:
        raise ctx.unsupported("it prints arrays.", f"the text {params.fmt!r:.60}")
    fields = [*string.Formatter().parse(params.fmt)] if params.has_placeholders else []
    numbers = iter(range(len(args)))
    # For each field (the text in front of it, the number of its operand).
    parts: list[tuple[str, int]] = []
    for text, field, _, _ in fields:
        if field is None:
            continue
        place = next(numbers) if field == "" else int(field) if field.isdigit() else None
        place = keywords.get(field) if place is None else args[place]
        if not isinstance(place, int):
            raise ctx.unsupported(
                "a field of what it prints is one of its arrays.", f"the text {params.fmt!r:.60}"
            )
        parts.append((text, place))
    if not parts:
        triton.print_(params.fmt, False, [], [])
    for text, place in parts:
        x, aval = operands[place], equation.operands[place].aval
        dtype = np.dtype(aval.dtype)
        if is_float(dtype) and float_bits(dtype) < 32:
            x = arith.extf(ctx.type(aval.shape, ctx.element(np.float32)), x)
        elif not is_float(dtype) and dtype.itemsize < 4:
            x = converted(ctx, x, aval, np.uint32 if is_unsigned(dtype) else np.int32)
        triton.print_(text, False, [x], [not is_unsigned(dtype)])
    return []
