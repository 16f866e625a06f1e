"""Fills the tables of a `ProgramRecord`, one body after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pellucid._machine.base import dtypes
from pellucid._machine.ir import AbstractValue, ShapedArray

from . import schema
from .placement import mesh_record, spec_record

_TEXT_LIMIT = 160


class ProgramColumns:
    """The tables of one program. Each text, type, mesh and sharding is stored once and referred to by index."""

    def __init__(
        self,
        key: str,
        name: str,
        dialect: Literal["jaxpr", "stablehlo", "hlo", "triton", "ptx", "mosaic", "mosaic_gpu"],
    ) -> None:
        self.key = key
        self.name = name
        self.dialect: Literal[
            "jaxpr", "stablehlo", "hlo", "triton", "ptx", "mosaic", "mosaic_gpu"
        ] = dialect
        self.values = schema.ValueColumns(name=[], user_name=[], type=[])
        self.equations = schema.EquationColumns(
            id=[], primitive=[], scope=[], span=[], effects=[], operand_counts=[], operands=[],
            result_counts=[], results=[], param_counts=[], param_names=[], param_texts=[],
            body_counts=[], bodies=[], body_roles=[], body_trips=[], transformation=[],
            origin_counts=[], origins=[],
        )  # fmt: skip
        self.kinds: dict[str, str] = {}
        self.bodies: list[schema.BodyRecord] = []
        self._strings: dict[str, int] = {"": 0}
        self._types: dict[Any, int] = {}
        self._type_records: list[schema.TypeRecord] = []
        self._literals: dict[tuple[str, int], int] = {}
        self._scopes: dict[tuple[int, int], int] = {}
        self._stacks: dict[int, int] = {}
        self._meshes: dict[Any, int] = {}
        self._mesh_records: list[schema.MeshRecord] = []
        self._shardings: dict[Any, int] = {}
        self._sharding_records: list[schema.SpecRecord] = []
        self._ids: set[int] = set()
        self._highest_id = 0

    # Texts and types ------------------------------------------------------------------------------

    def string(self, text: str) -> int:
        """The index of a text."""
        return self._strings.setdefault(text, len(self._strings))

    def aval_type(self, aval: AbstractValue) -> int:
        """The index of the type `aval`. Avals are interned, so equal types are the same object."""
        index = self._types.get(aval)
        if index is None:
            index = self._types[aval] = self._add_type(self._record_of(aval))
        return index

    def array_type(
        self, text: str, dtype: str, shape: Sequence[int] | None, bits: int | None
    ) -> int:
        """The index of a type whose text another printer wrote; `bits` is the width of one element."""
        index = self._types.get(text)
        if index is None:
            n_bytes = (
                None if bits is None or shape is None else math.ceil(math.prod(shape) * bits / 8)
            )
            record = schema.TypeRecord(
                text=text, dtype=dtype, shape=None if shape is None else list(shape), weak_type=False,
                bytes=n_bytes, sharding=-1, memory_space=None,
            )  # fmt: skip
            index = self._types[text] = self._add_type(record)
        return index

    def _add_type(self, record: schema.TypeRecord) -> int:
        self._type_records.append(record)
        return len(self._type_records) - 1

    def _record_of(self, aval: AbstractValue) -> schema.TypeRecord:
        if not isinstance(aval, ShapedArray):
            return schema.TypeRecord(
                text=aval.text(),
                dtype="",
                shape=None,
                weak_type=False,
                bytes=None,
                sharding=-1,
                memory_space=None,
            )
        shape: list[int | str] = [d if isinstance(d, int) else str(d) for d in aval.shape]
        return schema.TypeRecord(
            text=aval.text(),
            dtype=dtypes.short_name(aval.dtype),
            shape=shape,
            weak_type=aval.weak_type,
            bytes=array_bytes(aval),
            sharding=-1
            if aval.shown_sharding is None
            else self.sharding(aval.shown_sharding, aval.ndim),
            memory_space=None if aval.memory_space is None else str(aval.memory_space),
        )

    def bytes_of(self, type_index: int) -> int:
        """Number of bytes of a value of the type; 0 if unknown."""
        return self._type_records[type_index].bytes or 0

    # Placement ------------------------------------------------------------------------------------

    def mesh(self, mesh: Any) -> int:
        """The index of a mesh."""
        index = self._meshes.get(mesh)
        if index is None:
            index = self._meshes[mesh] = len(self._mesh_records)
            self._mesh_records.append(mesh_record(mesh))
        return index

    def sharding(self, sharding: Any, ndim: int) -> int:
        """The index of the sharding of values with `ndim` dimensions."""
        index = self._shardings.get((sharding, ndim))
        if index is None:
            mesh = getattr(sharding, "mesh", None)
            record = spec_record(sharding, ndim, -1 if mesh is None else self.mesh(mesh))
            index = self._shardings[sharding, ndim] = len(self._sharding_records)
            self._sharding_records.append(record)
        return index

    # Parts of equations ---------------------------------------------------------------------------

    def scope(self, path: Sequence[str]) -> int:
        """The index of the scope whose path of names this is, outermost first; -1 for an empty path."""
        index = -1
        for name in path:
            index = self._scopes.setdefault((self.string(name), index), len(self._scopes))
        return index

    def scope_of(self, stack: Any) -> int:
        """The index of the scope of a name stack; -1 for None. The program keeps the stack alive, so its `id` stays
        unique.
        """
        if stack is None:
            return -1
        index = self._stacks.get(id(stack))  # hashing a stack is slow
        if index is None:
            index = self._stacks[id(stack)] = self.scope(stack.scopes())
        return index

    def value(self, name: str, type_index: int, user_name: str = "") -> int:
        """The index of a new value."""
        values = self.values
        values.name.append(self.string(name))
        values.user_name.append(self.string(user_name))
        values.type.append(type_index)
        return len(values.name) - 1

    def literal(self, text: str, type_index: int) -> int:
        """The negative number that represents a literal in the columns of operands."""
        return -1 - self._literals.setdefault((shorten(text), type_index), len(self._literals))

    def equation(
        self,
        id: int,
        primitive: str,
        kind: str,
        operands: Sequence[int],
        results: Sequence[int],
        params: Sequence[tuple[str, str]] = (),
        bodies: Sequence[tuple[int, str, int | None]] = (),
        scope: int = -1,
        span: int = -1,
        effects: str = "",
        transformation: str = "",
        origins: Sequence[int] = (),
    ) -> int:
        """Adds an equation and returns its stable id, which is `id` unless another equation has that.

        `bodies` are (index, role, trips). An equation that was copied into the program twice keeps its id
        once; the second copy gets a new one and has the first as its origin.
        """
        if id in self._ids:
            origins = (*origins, id)
            id = self._highest_id + 1
        self._ids.add(id)
        self._highest_id = max(self._highest_id, id)
        string, columns = self.string, self.equations
        columns.id.append(id)
        columns.primitive.append(string(primitive))
        self.kinds[primitive] = kind
        columns.scope.append(scope)
        columns.span.append(span)
        columns.effects.append(string(effects))
        columns.operand_counts.append(len(operands))
        columns.operands.extend(operands)
        columns.result_counts.append(len(results))
        columns.results.extend(results)
        columns.param_counts.append(len(params))
        for name, text in params:
            columns.param_names.append(string(name))
            columns.param_texts.append(string(shorten(text)))
        columns.body_counts.append(len(bodies))
        for index, role, trips in bodies:
            columns.bodies.append(index)
            columns.body_roles.append(string(role))
            columns.body_trips.append(trips)
        columns.transformation.append(string(transformation))
        columns.origin_counts.append(len(origins))
        columns.origins.extend(origins)
        return id

    def reserve_ids(self, highest: int) -> None:
        """Make new ids larger than `highest`, so that equations added later can have ids up to it."""
        self._highest_id = max(self._highest_id, highest)

    @property
    def equation_count(self) -> int:
        return len(self.equations.id)

    def end_body(
        self, name: str, first: int, constants: list[int], inputs: list[int], outputs: list[int]
    ) -> None:
        """End a body: it consists of the equations from number `first` on."""
        self.bodies.append(
            schema.BodyRecord(
                name=name, first_equation=first, equation_count=self.equation_count - first,
                constants=constants, inputs=inputs, outputs=outputs,
            )
        )  # fmt: skip

    # ----------------------------------------------------------------------------------------------

    def record(
        self,
        sources: list[schema.SourceRecord],
        spans: schema.SpanColumns,
        costs: list[schema.CostColumn],
        listing: schema.ListingRecord | None,
    ) -> schema.ProgramRecord:
        """The finished record of the program."""
        literals = schema.LiteralColumns(
            text=[self.string(text) for text, _ in self._literals],
            type=[type_index for _, type_index in self._literals],
        )
        return schema.ProgramRecord(
            key=self.key,
            name=self.name,
            dialect=self.dialect,
            strings=list(self._strings),
            types=self._type_records,
            meshes=self._mesh_records,
            shardings=self._sharding_records,
            sources=sources,
            spans=spans,
            scopes=schema.ScopeColumns(
                name=[name for name, _ in self._scopes],
                parent=[parent for _, parent in self._scopes],
            ),
            values=self.values,
            literals=literals,
            equations=self.equations,
            kinds=self.kinds,
            bodies=self.bodies,
            costs=costs,
            listing=listing,
        )


def array_bytes(aval: ShapedArray) -> int | None:
    """Bytes of an array on a device; None with symbolic dimensions."""
    if not all(isinstance(d, int) for d in aval.shape):
        return None
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return aval.nbytes
    return math.ceil(aval.size * dtypes.itemsize_bits(aval.dtype) / 8)


def shorten(text: str) -> str:
    """`text` in at most 160 characters, on one line."""
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"
