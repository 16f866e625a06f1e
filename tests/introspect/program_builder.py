"""Builds a `ProgramRecord` one equation at a time, for tests of readers of records."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The schema is loaded by its path so that the front end's tests, which need these samples, run with
# any Python: the package itself needs jaxlib.
_SCHEMA = Path(__file__).parents[2] / "core" / "pellucid" / "introspect" / "schema.py"
_spec = importlib.util.spec_from_file_location("pellucid_introspect_schema", _SCHEMA)
assert _spec is not None
assert _spec.loader is not None
schema = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = schema
_spec.loader.exec_module(schema)

KINDS = {
    name: kind
    for kind, names in {
        "contraction": "dot dot_general",
        "control": "checkpoint cond fusion jit scan while",
        "indexing": "gather",
        "movement": "broadcast broadcast_in_dim convert_element_type reshape transpose",
        "random": "random_bits",
        "reduction": "reduce reduce_max reduce_sum",
    }.items()
    for name in names.split()
}
ITEM_BYTES = {"f32": 4, "bf16": 2, "i32": 4, "u32": 4, "bool": 1, "f64": 8}


@dataclass
class Row:
    """One equation, before its columns are known."""

    id: int
    primitive: str
    operands: list[int]
    results: list[int]
    params: dict[str, str]
    bodies: list[tuple[str, int, int | None]]
    scope: int
    span: int
    effects: str
    transformation: str
    origins: list[int]
    flops: float | None
    bytes: float | None


@dataclass
class Body:
    """One program, being filled."""

    name: str
    rows: list[Row] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class ProgramBuilder:
    """Collects bodies, values and spans; `record()` gives the finished program."""

    def __init__(self, key: str, name: str | None = None, dialect: str = "jaxpr") -> None:
        self.key = key
        self.name = key if name is None else name
        self.dialect = dialect
        self.strings: dict[str, int] = {"": 0}
        self.types: dict[tuple, int] = {}
        self.type_records: list = []
        self.sources: list = []
        self.spans: list[tuple[int, ...]] = []
        self.span_index: dict[tuple, int] = {}
        self.scopes: dict[tuple[int, int], int] = {}
        self.value_names: list[int] = []
        self.value_users: list[int] = []
        self.value_types: list[int] = []
        self.value_shapes: list[tuple[str, tuple]] = []
        self.literals: dict[tuple[int, int], int] = {}
        self.bodies: list[Body] = []
        self.meshes: list = []
        self.shardings: list = []
        self.next_id = 0
        self.main = self.body(self.name)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def type(
        self, dtype: str, shape: Sequence[int | str], *, weak: bool = False, sharding: int = -1
    ) -> int:
        key = (dtype, tuple(shape), weak, sharding)
        if key not in self.types:
            self.types[key] = len(self.type_records)
            symbolic = any(isinstance(dim, str) for dim in shape)
            text = f"{dtype}[{','.join(map(str, shape))}]"
            self.type_records.append(
                schema.TypeRecord(
                    text=text,
                    dtype=dtype,
                    shape=list(shape),
                    weak_type=weak,
                    bytes=None if symbolic else math.prod(shape) * ITEM_BYTES[dtype],
                    sharding=sharding,
                    memory_space=None,
                )
            )
        return self.types[key]

    def value(
        self, dtype: str, shape: Sequence[int | str], user: str = "", *, sharding: int = -1
    ) -> int:
        index = len(self.value_names)
        self.value_names.append(self.string(_letters(index)))
        self.value_users.append(self.string(user))
        self.value_types.append(self.type(dtype, shape, sharding=sharding))
        self.value_shapes.append((dtype, tuple(shape)))
        return index

    def literal(self, text: str, dtype: str = "f32") -> int:
        key = (self.string(text), self.type(dtype, (), weak=True))
        return -1 - self.literals.setdefault(key, len(self.literals))

    def source(self, name: str, text: str, *, path: str = "", cell_id: str | None = None) -> int:
        self.sources.append(
            schema.SourceRecord(
                name=name,
                path=path or f"/tmp/ipykernel_1/{name}.py",
                cell_id=cell_id,
                execution_count=3 if cell_id else None,
                first_line=1,
                lines=text.split("\n"),
            )
        )
        return len(self.sources) - 1

    def span(self, source: int, snippet: str, function: str = "", caller: int = -1) -> int:
        """Where `snippet` stands in a source; the assigned variable is read from its line."""
        key = (source, snippet, function, caller)
        if key in self.span_index:
            return self.span_index[key]
        number, line, column = self.find(source, snippet)
        head = line[:column].strip()
        variable = head[:-1].strip() if head.endswith("=") and not head.endswith("==") else ""
        self.spans.append(
            (
                source,
                number,
                number,
                column,
                column + len(snippet),
                self.string(function),
                self.string(variable),
                caller,
            )
        )
        self.span_index[key] = len(self.spans) - 1
        return self.span_index[key]

    def find(self, source: int, snippet: str) -> tuple[int, str, int]:
        """Number and text of the line that calls `snippet`, and the column where it stands."""
        for number, line in enumerate(self.sources[source].lines or [], 1):
            column = line.find(snippet)
            if column >= 0 and not line.startswith("def "):
                return number, line, column
        raise KeyError(snippet)

    def scope(self, *path: str) -> int:
        index = -1
        for name in path:
            key = (self.string(name), index)
            index = self.scopes.setdefault(key, len(self.scopes))
        return index

    def body(self, name: str) -> Body:
        self.bodies.append(Body(name))
        return self.bodies[-1]

    def input(
        self, dtype: str, shape: Sequence[int | str], user: str = "", body: Body | None = None
    ) -> int:
        index = self.value(dtype, shape, user)
        (body or self.main).inputs.append(index)
        return index

    def equation(
        self,
        primitive: str,
        operands: Sequence[int],
        dtype: str = "f32",
        shape: Sequence[int | str] = (),
        *,
        user: str = "",
        results: Sequence[int] | None = None,
        params: dict[str, str] | None = None,
        bodies: Sequence[tuple[str, Body, int | None]] = (),
        scope: int = -1,
        span: int = -1,
        effects: str = "",
        transformation: str = "",
        origins: Sequence[int] = (),
        flops: float | None = None,
        body: Body | None = None,
        id: int | None = None,
    ) -> int:
        """Adds an equation and gives its (first) result."""
        if results is None:
            results = [self.value(dtype, shape, user)]
        if id is None:
            id, self.next_id = self.next_id, self.next_id + 1
        values = [v for v in [*operands, *results] if v >= 0]
        (body or self.main).rows.append(
            Row(
                id=id,
                primitive=primitive,
                operands=list(operands),
                results=list(results),
                params=params or {},
                bodies=[(role, self.bodies.index(inner), trips) for role, inner, trips in bodies],
                scope=scope,
                span=span,
                effects=effects,
                transformation=transformation,
                origins=list(origins),
                flops=flops,
                bytes=sum(self.type_records[self.value_types[v]].bytes or 0 for v in values),
            )
        )
        return results[0] if results else -1

    def last_id(self, body: Body | None = None) -> int:
        return (body or self.main).rows[-1].id

    def record(self, listing=None):
        bodies, rows = [], []
        for body in self.bodies:
            bodies.append(
                schema.BodyRecord(
                    name=body.name,
                    first_equation=len(rows),
                    equation_count=len(body.rows),
                    constants=body.constants,
                    inputs=body.inputs,
                    outputs=body.outputs,
                )
            )
            rows.extend(body.rows)
        equations = schema.EquationColumns(
            id=[row.id for row in rows],
            primitive=[self.string(row.primitive) for row in rows],
            scope=[row.scope for row in rows],
            span=[row.span for row in rows],
            effects=[self.string(row.effects) for row in rows],
            operand_counts=[len(row.operands) for row in rows],
            operands=[operand for row in rows for operand in row.operands],
            result_counts=[len(row.results) for row in rows],
            results=[result for row in rows for result in row.results],
            param_counts=[len(row.params) for row in rows],
            param_names=[self.string(name) for row in rows for name in row.params],
            param_texts=[self.string(text) for row in rows for text in row.params.values()],
            body_counts=[len(row.bodies) for row in rows],
            bodies=[inner for row in rows for _, inner, _ in row.bodies],
            body_roles=[self.string(role) for row in rows for role, _, _ in row.bodies],
            body_trips=[trips for row in rows for _, _, trips in row.bodies],
            transformation=[self.string(row.transformation) for row in rows],
            origin_counts=[len(row.origins) for row in rows],
            origins=[origin for row in rows for origin in row.origins],
        )
        columns = list(zip(*self.spans)) or [()] * 8
        spans = schema.SpanColumns(
            **{
                name: list(column)
                for name, column in zip(
                    (
                        "source",
                        "line",
                        "end_line",
                        "column",
                        "end_column",
                        "function",
                        "variable",
                        "caller",
                    ),
                    columns,
                )
            }
        )
        return schema.ProgramRecord(
            key=self.key,
            name=self.name,
            dialect=self.dialect,
            strings=list(self.strings),
            types=self.type_records,
            meshes=self.meshes,
            shardings=self.shardings,
            sources=self.sources,
            spans=spans,
            scopes=schema.ScopeColumns(
                name=[name for name, _ in self.scopes], parent=[parent for _, parent in self.scopes]
            ),
            values=schema.ValueColumns(
                name=self.value_names, user_name=self.value_users, type=self.value_types
            ),
            literals=schema.LiteralColumns(
                text=[text for text, _ in self.literals], type=[type for _, type in self.literals]
            ),
            equations=equations,
            kinds={
                row.primitive: KINDS.get(row.primitive.removeprefix("stablehlo."), "elementwise")
                for row in rows
            },
            bodies=bodies,
            costs=[
                schema.CostColumn(
                    name="flops", unit="flop", basis="estimate", values=[row.flops for row in rows]
                ),
                schema.CostColumn(
                    name="bytes", unit="B", basis="estimate", values=[row.bytes for row in rows]
                ),
            ],
            listing=listing,
        )


def _letters(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        text = chr(ord("a") + letter) + text
    return text
