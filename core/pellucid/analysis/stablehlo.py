"""Records of StableHLO modules."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base.source import user_frame
from pellucid._machine.ir import Equation, Jaxpr
from pellucid.introspect import schema
from pellucid.introspect.columns import ProgramColumns
from pellucid.introspect.lineage import equation_at, equations_by_id
from pellucid.introspect.mosaic_passes import MosaicPass
from pellucid.introspect.spans import SourceSpans
from pellucid.kernels.buffering import emit_pipeline_p
from pellucid.kernels.mosaic_gpu.module import lowered as lowered_to_mosaic_gpu
from pellucid.kernels.mosaic_tpu.module import lowered as lowered_to_mosaic
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import TpuChip
from pellucid.kernels.triton.call import lowered

from .costs import Costs
from .module_text import FUNCTIONS, printed_module
from .opcodes import Details, operation_cost, operation_of
from .shapes import Shape, tensor_type

_REGION_ROLES = {
    "stablehlo.while": ("cond", "body"),
    "stablehlo.if": ("true_branch", "false_branch"),
    "stablehlo.select_and_scatter": ("select", "scatter"),
}
_ENDS = frozenset(
    {"stablehlo.return", "func.return", "sdy.return", "tt.return", "tt.reduce.return", "scf.yield"}
)


def stablehlo_program(
    lowered: Any, *, key: str | None = None, listing: bool = True, source_lines: bool = True
) -> schema.ProgramRecord:
    """The record of a `Lowered` stage."""
    name = lowered.fun_name
    columns = ProgramColumns(key or f"{name}:stablehlo", name, "stablehlo")
    writer = _ModuleWriter(columns, equations_by_id(lowered._lowered.jaxpr))
    return writer.write(lowered.compiler_ir(), listing=listing, source_lines=source_lines)


def triton_program(
    kernel: GridKernel, *, key: str, source_lines: bool = True
) -> schema.ProgramRecord:
    """The record of a kernel over a grid as a GPU would run it: in Triton's dialect.

    Raises: UnsupportedError for a kernel that can't be lowered to Triton.
    """
    columns = ProgramColumns(key, kernel.name, "triton")
    writer = _ModuleWriter(columns, equations_by_id(kernel.body.jaxpr))
    return writer.write(lowered(kernel).module, listing=True, source_lines=source_lines)


def mosaic_program(
    kernel: GridKernel, chip: TpuChip | None = None, line: str | None = None, *, key: str
) -> tuple[schema.ProgramRecord, list[tuple[str, int]]]:
    """(the record of a kernel over a grid in Mosaic's dialect, for TPUs; what it holds in VMEM, by name and bytes).

    Raises: UnsupportedError for a kernel that can't be lowered to TPUs.
    """
    columns = ProgramColumns(key, kernel.name, "mosaic")
    writer = _ModuleWriter(columns, _shown_equations(kernel.body.jaxpr))
    made = lowered_to_mosaic(kernel, chip, line)
    return writer.write(made.module, listing=True, source_lines=True), made.vmem


def mosaic_gpu_program(
    kernel: GridKernel, line: str | None = None, *, key: str
) -> schema.ProgramRecord:
    """The record of a kernel over a grid as a Hopper GPU would run it: in Mosaic's form, a launch of single threads.

    Raises: UnsupportedError for a kernel that can't be lowered to Hopper GPUs.
    """
    columns = ProgramColumns(key, kernel.name, "mosaic_gpu")
    writer = _ModuleWriter(columns, _shown_equations(kernel.body.jaxpr))
    made = lowered_to_mosaic_gpu(kernel, line)
    return writer.write(made.module, listing=True, source_lines=True)


_OPERATION = re.compile(r"^\s*(?:%[\w:, %#]+ = )?\"?([a-z]\w*(?:\.\w+)+)")


def mosaic_pass_program(kernel: GridKernel, found: MosaicPass, *, key: str) -> schema.ProgramRecord:
    """The record of a kernel after a pass of TPUs' compiler: its text, whose operations belong to the kernel's equations."""
    columns = ProgramColumns(key, f"{kernel.name} after {found.name}", "mosaic")
    equations, spans = _shown_equations(kernel.body.jaxpr), SourceSpans(columns.string)
    lines = found.text.split("\n")
    rows = [-1] * len(lines)
    for i, (line, id) in enumerate(zip(lines, found.equations, strict=True)):
        operation, equation = _OPERATION.match(line), equations.get(id)
        if operation is None or operation[1] == "func.func":
            continue
        rows[i] = columns.equation_count
        columns.equation(
            columns.equation_count + 1, operation[1], operation_of(operation[1]).kind, [], [], [], [],
            -1 if equation is None else columns.scope_of(equation.scope),
            -1 if equation is None else spans.span(equation.source),
            "", "", () if equation is None else [equation.id],
        )  # fmt: skip
    columns.end_body(kernel.name, 0, [], [], [])
    listing = schema.ListingRecord(text=found.text, line_equations=rows)
    return columns.record(spans.sources(with_lines=True), spans.columns(), [], listing)


def _shown_equations(jaxpr: Jaxpr) -> dict[int, Equation]:
    """The equations that a program shows, by the ids of those that are lowered: pipelines are lowered with buffers, and shown without.

    What is lowered of a pipeline belongs to the equation of the same line in its definition, else to the pipeline.
    """
    found = equations_by_id(jaxpr)
    for pipeline in [e for e in found.values() if e.primitive is emit_pipeline_p]:
        program = pipeline.params.held.staged.program
        if program is None:
            continue
        at_place: dict[Any, Equation] = {user_frame(pipeline.source): pipeline}
        for equation in equations_by_id(pipeline.params.jaxpr.jaxpr).values():
            at_place.setdefault(user_frame(equation.source), equation)
        for id, equation in equations_by_id(program.jaxpr).items():
            found.setdefault(id, at_place.get(user_frame(equation.source), pipeline))
    return found


def ptx_program(name: str, text: str, *, key: str) -> schema.ProgramRecord:
    """The record of a kernel in PTX: its text, whose lines belong to no equations."""
    columns = ProgramColumns(key, name, "ptx")
    columns.end_body(name, 0, [], [], [])
    spans = SourceSpans(columns.string)
    listing = schema.ListingRecord(text=text, line_equations=[-1] * len(text.split("\n")))
    return columns.record(spans.sources(with_lines=False), spans.columns(), [], listing)


class _Block(NamedTuple):
    """A function or region that waits to be written into the columns."""

    block: Any
    name: str
    is_function: bool


class _ModuleWriter:
    """Writes one module into columns."""

    def __init__(self, columns: ProgramColumns, equations: dict[int, Equation]) -> None:
        self.columns = columns
        self.is_kernel = columns.dialect in ("triton", "mosaic", "mosaic_gpu")
        self.equations = equations
        self.spans = SourceSpans(columns.string)
        self.values: dict[Any, int] = {}
        self.shapes: dict[int, Shape] = {}
        self.literals: dict[Any, int] = {}
        self.blocks: list[_Block] = []
        self.functions: dict[str, int] = {}
        self.costs = Costs(columns)
        self.types: dict[Any, tuple[int, Shape]] = {}
        self.rows: dict[Any, int] = {}

    def write(self, module: Any, *, listing: bool, source_lines: bool) -> schema.ProgramRecord:
        text = module.operation.get_asm(enable_debug_info=False)
        self.printed = printed_module(text, module)
        functions = [op for op in module.body.operations if op.operation.name in FUNCTIONS]
        functions.sort(key=lambda op: op.attributes["sym_name"].value != "main")
        for op in functions:
            name = op.attributes["sym_name"].value
            self.functions[name] = len(self.blocks)
            self.blocks.append(_Block(op.operation.regions[0].blocks[0], name, is_function=True))
        for block in self.blocks:  # grows during the loop
            self.write_block(block)
        return self.columns.record(
            self.spans.sources(with_lines=source_lines),
            self.spans.columns(),
            # A kernel runs once for each point of a grid: its equations in the jaxpr have the costs.
            [] if self.is_kernel else self.costs.columns(),
            self.listing(text) if listing else None,
        )

    def write_block(self, block: _Block) -> None:
        columns = self.columns
        arguments = [self.bind(v) for v in block.block.arguments]
        first = columns.equation_count
        outputs: list[int] = []
        for op in block.block.operations:
            operation = op.operation
            if operation.name in _ENDS:
                outputs = [self.operand(v) for v in operation.operands]
            elif operation.name == "stablehlo.constant":
                self.constant(operation)
            else:
                self.operation(operation)
        columns.end_body(block.name, first, [], arguments, outputs)

    def bind(self, value: Any) -> int:
        type_index, shape = self.type(value.type)
        index = self.values[value] = self.columns.value(
            self.printed.names.get(value, "_"), type_index
        )
        self.shapes[index] = shape
        return index

    def operand(self, value: Any) -> int:
        literal = self.literals.get(value)
        return self.values[value] if literal is None else literal

    def shape(self, operand: int) -> Shape:
        return self.shapes[operand] if operand >= 0 else Shape((), 0)

    def type(self, mlir_type: Any) -> tuple[int, Shape]:
        entry = self.types.get(mlir_type)
        if entry is None:
            text = str(mlir_type)
            dims, dtype, bits = tensor_type(text)
            index = self.columns.array_type(text, dtype, dims, bits)
            entry = self.types[mlir_type] = (
                index,
                Shape(tuple(dims or ()), bits or 0, dtype.startswith("complex")),
            )
        return entry

    def constant(self, operation: Any) -> None:
        [result] = operation.results
        type_index, _ = self.type(result.type)
        if "complex" in str(result.type):  # the bindings can't read complex attributes
            constant = operation.get_asm(large_elements_limit=_CONSTANTS_SHOWN)
            text = constant.partition("stablehlo.constant ")[2].partition(" loc(")[0].strip()
        else:
            value = operation.attributes["value"]
            text = _splat_text(value) if result.type.shape else str(value)
        text = re.sub(r"^dense<(.*)> : .*$", r"\1", text, flags=re.DOTALL)
        self.literals[result] = self.columns.literal(text, type_index)

    def operation(self, operation: Any) -> None:
        name, columns = operation.name, self.columns
        operands = [self.operand(v) for v in operation.operands]
        results = [self.bind(v) for v in operation.results]
        params: list[tuple[str, str]] = []
        bodies: list[tuple[int, str, int | None]] = []
        for attribute in operation.attributes:
            value = operation.attributes[attribute]
            if name == "func.call" and attribute == "callee":
                bodies.append((self.functions[value.value], "callee", 1))
            else:
                params.append((attribute, _attribute_text(value)))
        path = _location_path(operation.location)
        origin = equation_at(operation.location)
        equation = None if origin is None else self.equations.get(origin)
        origin = origin if equation is None else equation.id
        roles = _REGION_ROLES.get(name)
        trips = _trips(operation)
        for i, region in enumerate(operation.regions):
            role = roles[i] if roles else f"branches[{i}]" if name == "stablehlo.case" else "body"
            bodies.append((len(self.blocks), role, trips))
            self.blocks.append(_Block(region.blocks[0], role, is_function=False))
        row = operation_of(name)
        self.rows[operation] = columns.equation_count
        columns.equation(
            columns.equation_count + 1,
            name,
            row.kind,
            operands,
            results,
            params,
            bodies,
            columns.scope(path.split("/")[1:-1])
            if equation is None
            else columns.scope_of(equation.scope),
            self.spans.span(equation.source) if equation is not None else -1,
            "",
            "",
            () if origin is None else [origin],
        )
        shapes = [self.shape(o) for o in operands]
        details = _details(name, operation, shapes)
        cost = operation_cost(row, shapes, [self.shape(r) for r in results], details)
        self.costs.add(cost, row.bodies)

    def listing(self, text: str) -> schema.ListingRecord:
        lines = [-1] * (text.count("\n") + 1)
        for operation, line in self.printed.lines:
            row = self.rows.get(operation)
            if row is not None:
                lines[line] = row
        return schema.ListingRecord(text=text, line_equations=lines)


def _location_path(location: Any) -> str:
    return getattr(location, "name_str", "")


def _splat_text(value: Any) -> str:
    if value.is_splat:
        return str(value.get_splat_value()).partition(" : ")[0]
    return str(value) if len(value) <= _CONSTANTS_SHOWN else "…"


_CONSTANTS_SHOWN = 16


def _attribute_text(attribute: Any) -> str:
    text = re.sub(r"^array<i\d+(?:: )?(.*)>$", r"[\1]", str(attribute))
    return re.sub(r"^#stablehlo<\w+ (\w+)>$", r"\1", text)


def _trips(operation: Any) -> int | None:
    """Number of runs of an operation's regions; known for a loop whose first value counts from a constant to a larger
    one.
    """
    if operation.name != "stablehlo.while":
        return 1 if operation.name in ("func.call", "sdy.manual_computation") else None
    blocks = [region.blocks[0] for region in operation.regions]
    test, advance = (block.operations[len(block.operations) - 1].operands[0] for block in blocks)
    if not (_is_from(test, "stablehlo.compare") and _is_from(advance, "stablehlo.add")):
        return None
    (counter, limit), (counted, step) = test.owner.operands, advance.owner.operands
    if (counter, counted) != tuple(block.arguments[0] for block in blocks):
        return None
    if "LT" not in str(test.owner.attributes["comparison_direction"]):
        return None
    start, stop, by = (_integer(v) for v in (operation.operands[0], limit, step))
    return None if start is None or stop is None or not by else len(range(start, stop, by))


def _is_from(value: Any, name: str) -> bool:
    """Whether `value` is the result of an operation of that name; it may also be a block argument."""
    return getattr(value.owner, "name", "") == name


def _integer(value: Any) -> int | None:
    if not _is_from(value, "stablehlo.constant"):
        return None
    number = re.fullmatch(r"dense<(-?\d+)> : tensor<\w+>", str(value.owner.attributes["value"]))
    return int(number.group(1)) if number else None


def _details(name: str, operation: Any, operands: Sequence[Shape]) -> Details:
    attributes = operation.attributes
    if name == "stablehlo.dot_general":
        numbers = str(attributes["dot_dimension_numbers"])
        dims = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]", numbers)
        axes = [int(d) for d in dims.group(1).split(",")] if dims else []
        return Details(summed=math.prod(operands[0].dims[d] for d in axes))
    if name == "stablehlo.convolution":
        kernel = re.search(r"x\[([^\]]*)\]", str(attributes["dimension_numbers"]))
        labels = [label.strip() for label in kernel.group(1).split(",")] if kernel else []
        features = operands[1].dims[labels.index("o")] if "o" in labels else 1
        return Details(summed=operands[1].size / max(1, features))
    if name == "stablehlo.sort":
        return Details(lengths=(operands[0].dims[int(attributes["dimension"])],))
    if name == "stablehlo.fft":
        lengths = tuple([int(n) for n in attributes["fft_length"]])
        return Details(lengths=lengths, is_real="RFFT" in str(attributes["fft_type"]))
    if name == "stablehlo.reduce_window":
        return Details(window=math.prod(attributes["window_dimensions"]))
    return Details()
