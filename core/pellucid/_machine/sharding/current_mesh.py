"""The current mesh of a thread: `set_mesh`, `get_mesh` and related functions."""

# Arguments of users are checked, also where annotations exclude other types.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Iterator

from pellucid._machine.base import block
from pellucid._machine.xla import flags

from . import mesh_context
from .errors import MeshError, ShardingArgumentError
from .mesh import AbstractMesh, Mesh, empty_abstract_mesh, empty_mesh


def get_abstract_mesh() -> AbstractMesh:
    """The AbstractMesh that is current in this thread; the empty one by default.

    >>> get_abstract_mesh().empty
    True
    """
    return mesh_context.abstract.value or empty_abstract_mesh


def get_mesh() -> Mesh:
    """The Mesh that `set_mesh` made current in this thread; the empty one by default.

    Raises: MeshError while a function is traced, which must not depend on devices.

    >>> with pl.set_mesh(pl.make_mesh((2,), ("i",))):
    ...     print(pl.sharding.get_mesh())
    Mesh('i': 2, axis_types=(Explicit,))
    """
    _refuse_under_trace("get_mesh", "get_abstract_mesh()")
    return mesh_context.concrete.value or empty_mesh


class set_mesh:
    """Makes `mesh` current in this thread, immediately; as a context manager until the block ends. None unsets the
    mesh.

    Bare PartitionSpecs then refer to it, and types of values show their sharding over its Explicit axes.

    Raises: ShardingArgumentError if `mesh` is no Mesh; MeshError while a function is traced.

    >>> with pl.set_mesh(pl.make_mesh((2,), ("i",))):
    ...     print(pl.typeof(pl.device_put(np.ones(4), pl.P("i"))))
    float32[4@i]
    """

    def __init__(self, mesh: Mesh | None) -> None:
        mesh = empty_mesh if mesh is None else mesh
        if not isinstance(mesh, Mesh):
            raise ShardingArgumentError(
                "set_mesh needs a Mesh.",
                got=f"mesh: {type(mesh).__name__}",
                do="Use `use_abstract_mesh` for an AbstractMesh."
                if isinstance(mesh, AbstractMesh)
                else "Make one with `make_mesh(sizes, names)`.",
            )
        _refuse_under_trace("set_mesh", "`with use_abstract_mesh(mesh.abstract_mesh):`")
        self.prev_mesh = mesh_context.concrete.swap_local(None if mesh.empty else mesh)
        """The Mesh that was current before."""
        self.prev_abstract_mesh = mesh_context.abstract.swap_local(
            None if mesh.empty else mesh.abstract_mesh
        )
        """The AbstractMesh that was current before."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        mesh_context.concrete.set_local(self.prev_mesh)
        mesh_context.abstract.set_local(self.prev_abstract_mesh)


@block
def use_mesh(mesh: Mesh) -> Iterator[None]:
    """Make `mesh` current in this thread until the block ends: an older name of `with set_mesh(mesh):`.

    >>> with pl.sharding.use_mesh(pl.make_mesh((2,), ("i",))):
    ...     pl.sharding.get_mesh().axis_names
    ('i',)
    """
    with set_mesh(mesh):
        yield


class use_abstract_mesh:
    """Make `mesh`, an AbstractMesh, current in this thread until the block ends.

    Raises: ShardingArgumentError if `mesh` is no AbstractMesh; MeshError if a mesh with another number of
    devices is current.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     get_abstract_mesh()
    AbstractMesh('x': 2, axis_types=(Auto,))
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ShardingArgumentError(
                "use_abstract_mesh needs an AbstractMesh.",
                got=f"mesh: {type(mesh).__name__}",
                do="Use `mesh.abstract_mesh`, or `set_mesh(mesh)` outside of traced functions."
                if isinstance(mesh, Mesh)
                else None,
            )
        self.mesh = mesh

    def __enter__(self) -> AbstractMesh:
        outer = get_abstract_mesh()
        if not outer.empty and not self.mesh.empty and outer.size != self.mesh.size:
            raise MeshError(
                "use_abstract_mesh can't change the number of devices.",
                got=[
                    f"new: {self.mesh} of size {self.mesh.size}",
                    f"current: {outer} of size {outer.size}",
                ],
            )
        self.prev = mesh_context.abstract.swap_local(self.mesh)
        return self.mesh

    def __exit__(self, *exception: object) -> None:
        mesh_context.abstract.set_local(self.prev)


def _refuse_under_trace(name: str, instead: str) -> None:
    if flags.tracing_now.value is not None:
        raise MeshError(
            f"{name} can't be used inside a function that is being traced.",
            do=f"Use {instead} there.",
        )
