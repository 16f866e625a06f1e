"""Exported programs: functions as StableHLO modules, with all that is needed to call them in another process."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.ir import Effect, ShapedArray
from pellucid._machine.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from pellucid._machine.xla.mlir import lasting_copy, module_of_artifact, new_context
from pellucid._machine.xla.shardings import HloSharding

from . import calling
from .checks import DisabledSafetyCheck
from .errors import ExportError, SerializationError
from .serialization import deserialize_fields, serialize_fields
from .symbolic import is_symbolic_dim

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A function as a StableHLO module, made by `export` or `deserialize`.

    `in_avals`, `out_avals` and the shardings belong to the flat arguments and results, whose structures are `in_tree`,
    that of `(args, kwargs)`, and `out_tree`. The module takes, in this order: the position of the platform at hand
    among `platforms`, if there are several; a token for each of `ordered_effects`; the flat arguments at
    `module_kept_var_idx`.

    >>> exported = pl.export.export(pl.jit(jnp.sin))(np.ones(3, np.float32))
    >>> exported.fun_name, exported.in_avals, exported.platforms
    ('sin', (ShapedArray(float32[3]),), ('cpu',))
    >>> exported.call(np.zeros(3, np.float32))
    Array([0., 0., 0.], dtype=float32)
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    _has_named_shardings: bool
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]
    in_shardings_hlo: tuple[HloSharding | None, ...]
    """Only of programs in files older than 2026; None for the others."""
    out_shardings_hlo: tuple[HloSharding | None, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Effect, ...]
    unordered_effects: tuple[Effect, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    mlir_module_serialized: bytes
    """The module as a portable artifact of StableHLO."""
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    """Whether the module takes the position of a platform, or has dimension variables."""
    _get_vjp: Callable[[Exported], Exported] | None

    def __post_init__(self) -> None:
        if not self._has_named_shardings:
            raise ExportError(
                f"the exported `{self.fun_name}` has shardings in a form from before 2026, which can't be called.",
                do="Export it again.",
            )

    @functools.cached_property
    def equations(self) -> Any:
        """Equations of the dimension variables and the sizes of the arguments; None without symbolic sizes."""
        shapes = [aval.shape for aval in self.in_avals]
        symbols = [size for shape in shapes for size in shape if is_symbolic_dim(size)]
        if not symbols:
            return None
        return symbols[0].equations(shapes, calling.argument_names(self.in_tree))

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The module as text with its locations, or with `serialized=False` as an MLIR module, which stays in memory.

        >>> exported = pl.export.export(pl.jit(jnp.sin))(1.0)
        >>> "stablehlo.sine" in exported.mlir_module()
        True
        """
        module = module_of_artifact(self.mlir_module_serialized, new_context())
        if not serialized:
            return lasting_copy(module)
        return module.operation.get_asm(enable_debug_info=True)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Results for arguments of the structure and types that the function was exported for.

        Under `jit` the program becomes part of the caller's, and reverse mode uses the exported derivative.

        Raises: ExportError for other arguments, for another platform or number of devices, and where a derivative is
        needed that the program doesn't have; UnsupportedError under `vmap`.

        >>> exported = pl.export.export(pl.jit(jnp.sin))(1.0)
        >>> pl.grad(exported.call)(0.0)
        Array(1., dtype=float32, weak_type=True)
        """
        return calling.call(self, args, kwargs)

    def has_vjp(self) -> bool:
        """Whether there is a derivative.

        >>> exported = pl.export.export(pl.jit(jnp.sin))(1.0)
        >>> pl.export.deserialize(exported.serialize()).has_vjp()
        False
        """
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The derivative, exported: it takes the flat arguments and a cotangent for each flat result.

        It returns a cotangent for each flat argument.

        Raises: ExportError where there is none.

        >>> exported = pl.export.export(pl.jit(jnp.sin))(1.0)
        >>> exported.vjp().call(0.0, 2.0)
        (Array(2., dtype=float32, weak_type=True),)
        """
        if self._get_vjp is None:
            raise ExportError(
                f"the exported `{self.fun_name}` has no derivative.",
                do="Serialize it with its derivative: `exported.serialize(vjp_order=1)`.",
            )
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with its derivatives up to `vjp_order`, that `jax.export` reads, too.

        Raises: SerializationError for arguments or results of classes that are not registered for serialization;
        ExportError for derivatives that it doesn't have.

        >>> exported = pl.export.export(pl.jit(jnp.sin))(1.0)
        >>> again = pl.export.deserialize(exported.serialize(vjp_order=1))
        >>> again.call(0.0), again.vjp().has_vjp()
        (Array(0., dtype=float32), False)
        """
        return bytearray(serialize_fields(self, vjp_order))

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh) -> tuple[NamedSharding | None, ...]:
        """For each flat argument its sharding over `mesh`; None where none was stated.

        Raises: ExportError for a mesh of another shape than the program was exported for.
        """
        return self._over(mesh, self._in_named_shardings)

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh) -> tuple[NamedSharding | None, ...]:
        """For each flat result its sharding over `mesh`; None where none was stated.

        Raises: ExportError for a mesh of another shape than the program was exported for.
        """
        return self._over(mesh, self._out_named_shardings)

    def _over(
        self, mesh: Mesh | AbstractMesh, shardings: Sequence[NamedSharding | None]
    ) -> tuple[NamedSharding | None, ...]:
        for sharding in shardings:
            if sharding is None or sharding.mesh.empty:
                continue
            if sharding.mesh.shape_tuple != mesh.shape_tuple:
                raise ExportError(
                    f"the exported `{self.fun_name}` is laid out over a mesh of another shape.",
                    got=[f"exported over {sharding.mesh}", f"mesh: {mesh}"],
                )
        return tuple([None if s is None else s.update(mesh=mesh) for s in shardings])


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported program in the bytes that `Exported.serialize`, here or in jax, returned.

    The bytes must be trusted: a program may call native code that is registered in this process.

    Raises: SerializationError for other bytes, and for arguments or results of classes that are not registered.

    >>> exported = pl.export.export(pl.jit(jnp.sin))(np.float32(1))
    >>> deserialize(exported.serialize()).call(np.float32(0))
    Array(0., dtype=float32)
    """
    exported = _with_derivatives(*deserialize_fields(blob))
    version = exported.calling_convention_version
    low, high = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not low <= version <= high:
        raise SerializationError(
            f"the exported `{exported.fun_name}` has a calling convention that can't be read.",
            got=f"version {version}; versions {low} to {high} can be read",
        )
    return exported


def _with_derivatives(fields: dict[str, Any], derivative: Any) -> Exported:
    vjp = None if derivative is None else _with_derivatives(*derivative)
    return Exported(**fields, _get_vjp=None if vjp is None else lambda _: vjp)


def over_abstract_meshes(shardings: Sequence[Any]) -> tuple[NamedSharding | None, ...]:
    """Shardings over abstract meshes, in the form of exported programs; None for unspecified ones, and for single
    devices.

    Raises: ExportError for a tile assignment that no mesh of the program names.
    """
    abstract: list[NamedSharding | None] = []
    for sharding in shardings:
        if sharding is None or isinstance(sharding, SingleDeviceSharding):
            abstract.append(None)
            continue
        if not isinstance(sharding, NamedSharding):
            raise ExportError(
                "arguments and results of exported programs over several devices must be laid out by a NamedSharding.",
                got=f"{sharding}",
            )
        abstract.append(sharding.update(mesh=sharding.mesh.abstract_mesh))
    return tuple(abstract)
