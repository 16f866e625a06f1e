"""One function at several stages: through the compiler, through transformations, and changed."""

from __future__ import annotations

from tests.introspect.program_builder import Body, ProgramBuilder, Row, schema
from tests.introspect.sample_programs import control_flow, mlp, transformer

STABLEHLO = {
    "dot_general": "stablehlo.dot_general",
    "broadcast_in_dim": "stablehlo.broadcast_in_dim",
    "add": "stablehlo.add",
    "sub": "stablehlo.subtract",
    "mul": "stablehlo.multiply",
    "div": "stablehlo.divide",
    "neg": "stablehlo.negate",
    "tanh": "stablehlo.tanh",
    "exp": "stablehlo.exponential",
    "log": "stablehlo.log",
    "reduce_max": "stablehlo.reduce",
    "reduce_sum": "stablehlo.reduce",
}
HLO = {name: operation.split(".")[1].replace("_", "-") for name, operation in STABLEHLO.items()}
HLO |= {"dot_general": "dot", "broadcast_in_dim": "broadcast"}


def _tensor(builder: ProgramBuilder, value: int) -> str:
    dtype, shape = builder.value_shapes[value]
    return f"tensor<{'x'.join([*map(str, shape), dtype])}>"


def stablehlo(source: ProgramBuilder):
    """StableHLO of a builder's jaxpr, one operation for each equation, and the links to it."""
    b = ProgramBuilder(f"{source.key}.stablehlo", source.name, "stablehlo")
    values: dict[int, int] = {}
    lines, line_equations = [f"module @jit_{source.name} {{"], [-1]
    arguments = []
    for index, value in enumerate(source.main.inputs):
        values[value] = b.input(*source.value_shapes[value], f"%arg{index}")
        arguments.append(f"%arg{index}: {_tensor(source, value)}")
    lines.append(f"  func.func public @main({', '.join(arguments)}) {{")
    line_equations.append(-1)
    for number, row in enumerate(source.main.rows):
        [result] = row.results
        name = STABLEHLO[row.primitive]
        operands = [
            b.literal(source_literal(source, o)) if o < 0 else values[o] for o in row.operands
        ]
        values[result] = b.equation(
            name, operands, *source.value_shapes[result], user=f"%{number}", id=1000 + row.id
        )
        texts = [source_literal(source, o) if o < 0 else b_name(b, values[o]) for o in row.operands]
        lines.append(f"    %{number} = {name} {', '.join(texts)} : {_tensor(source, result)}")
        line_equations.append(number)
    lines += [f"    return %{len(source.main.rows) - 1}", "  }", "}"]
    line_equations += [-1, -1, -1]
    b.main.outputs.append(values[source.main.outputs[0]])
    listing = schema.ListingRecord(text="\n".join(lines), line_equations=line_equations)
    ids = [row.id for row in source.main.rows]
    link = schema.LinkRecord(
        source=source.key,
        target=b.key,
        relation="lower",
        source_ids=ids,
        target_ids=[1000 + each for each in ids],
    )
    return b, b.record(listing), link


def b_name(builder: ProgramBuilder, value: int) -> str:
    return list(builder.strings)[builder.value_users[value]]


def source_literal(builder: ProgramBuilder, operand: int) -> str:
    text, _ = list(builder.literals)[-1 - operand]
    return list(builder.strings)[text]


def optimized(source: ProgramBuilder):
    """Optimized HLO: matrix products by themselves, what stands between them in fusions."""
    b = ProgramBuilder(f"{source.key}.hlo", source.name, "hlo")
    runs: list[list[Row]] = []
    for row in source.main.rows:
        is_product = row.primitive == "dot_general"
        if is_product or not runs or runs[-1][0].primitive == "dot_general":
            runs.append([])
        runs[-1].append(row)
    values: dict[int, int] = {}
    for index, value in enumerate(source.main.inputs):
        values[value] = b.input(*source.value_shapes[value], f"%param.{index}")
    texts: list[tuple[Body | None, int, str]] = []
    pairs: list[tuple[int, int]] = []
    fused: list[tuple[Body, str]] = []
    for index, run in enumerate(runs):
        if len(run) == 1:
            [row] = run
            [result] = row.results
            values[result] = b.equation(
                HLO[row.primitive], [values[o] for o in row.operands], *source.value_shapes[result],
                user=f"%dot.{index}", id=2000 + row.id,
            )  # fmt: skip
            pairs.append((row.id, 2000 + row.id))
            texts.append((None, b.main.rows[-1].id, _hlo_line(b, b.main.rows[-1])))
            continue
        body = b.body(f"fused_computation.{index}")
        inner: dict[int, int] = {}
        outside: list[int] = []
        for row in run:
            operands = []
            for operand in row.operands:
                if operand < 0:
                    operands.append(b.literal(source_literal(source, operand)))
                    continue
                if operand not in inner:
                    inner[operand] = b.input(
                        *source.value_shapes[operand], f"%param_{len(outside)}.{index}", body
                    )
                    outside.append(operand)
                operands.append(inner[operand])
            [result] = row.results
            opcode = HLO[row.primitive]
            inner[result] = b.equation(
                opcode, operands, *source.value_shapes[result],
                user=f"%{opcode}.{row.id}", body=body, id=2000 + row.id,
            )  # fmt: skip
            pairs.append((row.id, 2000 + row.id))
            texts.append((body, body.rows[-1].id, _hlo_line(b, body.rows[-1])))
        body.outputs.append(inner[run[-1].results[0]])
        result = run[-1].results[0]
        values[result] = b.equation(
            "fusion", [values[o] for o in outside], *source.value_shapes[result],
            user=f"%fusion.{index}", params={"kind": "kLoop"}, bodies=[("calls", body, 1)],
            id=3000 + index,
        )  # fmt: skip
        fused.append((body, f"%fused_computation.{index}"))
        line = _hlo_line(b, b.main.rows[-1]) + f", kind=kLoop, calls=%fused_computation.{index}"
        texts.append((None, 3000 + index, line))
    b.main.outputs.append(values[source.main.outputs[0]])
    record = b.record()
    place = {id: index for index, id in enumerate(record.equations.id)}
    lines: list[str] = [f"HloModule jit_{source.name}, is_scheduled=true", ""]
    at: list[int] = [-1, -1]
    for body, name in [*fused, (None, "ENTRY %main")]:
        lines.append(f"{name} {{")
        at.append(-1)
        for owner, id, text in texts:
            if owner is body:
                lines.append(f"  {text}")
                at.append(place[id])
        lines += ["}", ""]
        at += [-1, -1]
    link = schema.LinkRecord(
        source=source.key,
        target=b.key,
        relation="compile",
        source_ids=[a for a, _ in pairs],
        target_ids=[c for _, c in pairs],
    )
    return b.record(schema.ListingRecord(text="\n".join(lines), line_equations=at)), link


def _hlo_line(b: ProgramBuilder, row: Row) -> str:
    [result] = row.results
    dtype, shape = b.value_shapes[result]
    operands = [source_literal(b, o) if o < 0 else b_name(b, o) for o in row.operands]
    layout = ",".join(map(str, reversed(range(len(shape)))))
    kind = f"{dtype}[{','.join(map(str, shape))}]{{{layout}}}"
    return f"{b_name(b, result)} = {kind} {row.primitive}({', '.join(operands)})"


def lens():
    source = mlp("mlp.jaxpr")
    builder, lowered, first = stablehlo(source)
    compiled, from_source = optimized(source)
    # Links lead from stage to stage: what the optimizer keeps is tied to what it was given.
    second = schema.LinkRecord(
        source=builder.key,
        target=compiled.key,
        relation="compile",
        source_ids=[1000 + id for id in from_source.source_ids],
        target_ids=from_source.target_ids,
    )
    return schema.LensRecord(
        name="loss",
        programs=[source.record(), lowered, compiled],
        links=[first, second],
        notes=[
            "",
            "",
            "compute capability 9.0: 40 registers per thread, 0 B spilled, occupancy 75%",
        ],
    )


def ladder():
    """`sin(x) * x` after jvp, linearize and transpose."""
    cell = "def f(x):\n    y = jnp.sin(x)\n    return y * x\n"

    def start(key: str) -> tuple[ProgramBuilder, int, int]:
        b = ProgramBuilder(key, "f")
        source = b.source("In[5]", cell, cell_id="f5")
        return b, b.span(source, "jnp.sin(x)", "f"), b.span(source, "y * x", "f")

    def vector(
        b: ProgramBuilder,
        name: str,
        *operands: int,
        user: str = "",
        span: int = -1,
        origin: int = -1,
        by: str = "",
    ) -> int:
        return b.equation(
            name, operands, shape=(8,), user=user, span=span, flops=8,
            transformation=by, origins=[origin] if origin >= 0 else [],
        )  # fmt: skip

    b, sin_span, mul_span = start("f")
    x = b.input("f32", (8,), "x")
    y = vector(b, "sin", x, user="y", span=sin_span)
    b.main.outputs.append(vector(b, "mul", y, x, span=mul_span))
    programs, links, names = [b.record()], [], [""]

    def link(key: str, target: str, relation: str, pairs: list[tuple[int, int]]) -> None:
        links.append(
            schema.LinkRecord(
                source=key, target=target, relation=relation,
                source_ids=[a for a, _ in pairs], target_ids=[c for _, c in pairs],
            )
        )  # fmt: skip

    b, sin_span, mul_span = start("f.jvp")
    x, dx = b.input("f32", (8,), "x"), b.input("f32", (8,), "x_dot")
    y = vector(b, "sin", x, user="y", span=sin_span, by="jvp", origin=0)
    c = vector(b, "cos", x, span=sin_span, by="jvp", origin=0)
    dy = vector(b, "mul", dx, c, span=sin_span, by="jvp", origin=0)
    z = vector(b, "mul", y, x, span=mul_span, by="jvp", origin=1)
    left = vector(b, "mul", dy, x, span=mul_span, by="jvp", origin=1)
    right = vector(b, "mul", y, dx, span=mul_span, by="jvp", origin=1)
    dz = vector(b, "add", left, right, span=mul_span, by="jvp", origin=1)
    b.main.outputs += [z, dz]
    programs.append(b.record())
    names.append("jvp")
    link("f", "f.jvp", "jvp", [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (1, 6)])

    b, sin_span, mul_span = start("f.linear")
    c, x, y = b.input("f32", (8,), "c"), b.input("f32", (8,), "x"), b.input("f32", (8,), "y")
    dx = b.input("f32", (8,), "x_dot")
    dy = vector(b, "mul", dx, c, span=sin_span, by="linearize", origin=2)
    left = vector(b, "mul", dy, x, span=mul_span, by="linearize", origin=4)
    right = vector(b, "mul", dx, y, span=mul_span, by="linearize", origin=5)
    b.main.outputs.append(
        vector(b, "add_any", left, right, span=mul_span, by="linearize", origin=6)
    )
    programs.append(b.record())
    names.append("linearize")
    link("f.jvp", "f.linear", "linearize", [(2, 0), (4, 1), (5, 2), (6, 3)])

    b, sin_span, mul_span = start("f.transpose")
    c, x, y = b.input("f32", (8,), "c"), b.input("f32", (8,), "x"), b.input("f32", (8,), "y")
    bar = b.input("f32", (8,), "z_bar")
    direct = vector(b, "mul", bar, y, span=mul_span, by="transpose", origin=2)
    through = vector(b, "mul", bar, x, span=mul_span, by="transpose", origin=1)
    through = vector(b, "mul", through, c, span=sin_span, by="transpose", origin=0)
    b.main.outputs.append(vector(b, "add_any", direct, through, by="transpose"))
    programs.append(b.record())
    names.append("transpose")
    link("f.linear", "f.transpose", "transpose", [(2, 0), (1, 1), (0, 2)])
    return schema.LadderRecord(
        name="grad(f)", transformations=names, sources=[-1, 0, 1, 2], programs=programs, links=links
    )


def diff():
    return schema.DiffRecord(
        before=mlp("mlp.before").record(),
        after=mlp("mlp.after", hidden=256, with_dropout=True).record(),
        matches=None,
    )


def diff_large():
    """The same transformer with one layer more."""
    return schema.DiffRecord(
        before=transformer("transformer.before", layers=12).record(),
        after=transformer("transformer.after", layers=13).record(),
        matches=None,
    )


def diff_nested():
    return schema.DiffRecord(
        before=control_flow("control.before").record(),
        after=control_flow("control.after").record(),
        matches=None,
    )
