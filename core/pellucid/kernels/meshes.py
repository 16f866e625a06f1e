"""Kernels over the cores of a device: `core_map` and `kernel`. One core runs after the other, so cores can't wait for each other."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    UnsupportedError,
    tree_map,
    tree_structure,
)
from pellucid._machine.base.late import late
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    ClosedJaxpr,
    DebugInfo,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Values,
    axis_names_of,
    rearrange_program,
    with_programs,
)
from pellucid._machine.parallel.axes import axis_index_p
from pellucid._machine.refs.access import freeze, get, new_ref, set as write
from pellucid._machine.tracing import is_reference, name_of, replay, source_of, type_of
from pellucid._machine.tracing.current import bound_axes
from pellucid._machine.transforms import check_callable, stage_open

from .captured import with_captured
from .grid import programs_of_kernel
from .inside import empty_ref_like, run_scoped
from .mappings import INDEX, mapping_of, with_indices
from .programs import GridKernel
from .simulator.params import InterpretParams, simulation_of
from .specs import MemoryRef, outside

_OMITTED: Any = object()


@dataclass(frozen=True)
class CoreMesh:
    """The cores of a device, along named axes.

    >>> CoreMesh((2,), ("core",)).shape
    {'core': 2}
    """

    sizes: tuple[int, ...]
    axis_names: tuple[str, ...]

    @property
    def shape(self) -> dict[str, int]:
        """The number of cores along each axis."""
        return dict(zip(self.axis_names, self.sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of cores."""
        return math.prod(self.sizes)


def create_tensorcore_mesh(
    axis_name: str, devices: Sequence[Any] | None = None, num_cores: int | None = None
) -> CoreMesh:
    """The TensorCores of a device, `num_cores` along the axis `axis_name`: one by default.

    Raises: UnsupportedError for `devices`, ArgumentValueError for fewer cores than one.

    >>> create_tensorcore_mesh("core", num_cores=2)
    CoreMesh(sizes=(2,), axis_names=('core',))
    """
    if devices is not None:
        raise UnsupportedError(
            "create_tensorcore_mesh takes no devices: the number of cores is never read from the machine.",
            do="Pass num_cores.",
        )
    n = 1 if num_cores is None else num_cores
    if n < 1:
        raise ArgumentValueError("create_tensorcore_mesh: a mesh has a core.", got=f"got {n}")
    return CoreMesh((n,), (axis_name,))


def core_map(
    mesh: Any,
    *,
    compiler_params: Any = None,
    interpret: Any = False,
    debug: bool = False,
    cost_estimate: Any = None,
    name: str | None = None,
    metadata: Mapping[str, str] | None = None,
    scratch_shapes: Any = (),
) -> Callable[[Function], None]:
    """A decorator that runs a function of scratch references on each core of `mesh`; it writes to references from
    outside.

    In it `lax.axis_index` gives the position of the core. Cores run one after another, each with scratch of its own; with
    `interpret=tpu.InterpretParams()` beside each other. The other parameters are hints. Raises: UnsupportedError for communication between cores.

    >>> from pellucid import lax
    >>> ref = new_ref(np.zeros(2, np.int32))
    >>> @core_map(create_tensorcore_mesh("core", num_cores=2))
    ... def _():
    ...     i = lax.axis_index("core")
    ...     ref[i] = i + 5
    >>> ref
    Ref([5, 6], dtype=int32)
    """
    mesh = _checked_mesh("core_map", mesh)

    def run(function: Function) -> None:
        check_callable(function, "core_map")

        # Scratch in a dict is passed by name, else by position.
        named = dict(scratch_shapes) if isinstance(scratch_shapes, Mapping) else {}
        listed = isinstance(scratch_shapes, (tuple, list))
        types = () if named else scratch_shapes if listed else (scratch_shapes,)

        def on_core() -> list[Any]:
            result = run_scoped(function, *types, **named)
            if result is not None:
                raise ArgumentTypeError(
                    "core_map: the function must return None.",
                    got=f"returned {type(result).__name__}",
                )
            return []

        simulator = simulation_of(interpret)
        with bound_axes(mesh.shape), programs_of_kernel():
            debug = DebugInfo("core_map", source_of(function, name))
            program, refs = stage_open(on_core, [], debug)
        if simulator is not None:
            _simulate(mesh, simulator, program, refs, name or name_of(function))
            return
        # In the order of the mesh, the last axis fastest.
        for position in itertools.product(*map(range, mesh.sizes)):
            own = on_core_at(program.jaxpr, dict(zip(mesh.axis_names, position, strict=True)))
            if names := sorted(map(str, axis_names_of(own).intersection(mesh.axis_names))):
                raise UnsupportedError(
                    "core_map: cores run one after another, and can't communicate.",
                    got=f"an operation over {', '.join(names)}",
                )
            replay(own, (), *refs)

    return run


def _simulate(
    mesh: CoreMesh, params: InterpretParams, program: ClosedJaxpr, consts: Values, name: str
) -> None:
    """Let the cores of a mesh run a program beside each other; its references are constants."""
    if arrays := [x for x in consts if not is_reference(x)]:
        raise ArgumentValueError(
            f"core_map of `{name}`: the function uses arrays from outside.",
            got=[type_of(x).text() for x in arrays[:4]],
            do="Put them into references: `new_ref(x)`.",
        )
    n_axes = len(mesh.sizes)
    n = len(consts)
    # Inputs are the constants, then the position along each axis of the grid, which is that of the mesh.
    body = rearrange_program(program, [*range(n), *[INDEX] * n_axes])
    body, _, captured = with_captured(body, consts, n_axes, 0)
    mappings = with_indices(
        [
            mapping_of(
                f"reference {i} from outside",
                outside,
                x.aval.inner_aval,
                n_axes,
                [],
                tree_structure(()),
            )
            for i, x in enumerate(captured.references)
        ],
        mesh.sizes,
    )
    results = [m for m, w in zip(mappings, captured.is_written, strict=True) if w]
    kernel = GridKernel(
        name, mesh.sizes, body, [], (), tuple(mappings), tuple(results), (), frozenset(), captured.aliases(0, 0), frozenset(range(n_axes)),
    )  # fmt: skip
    params = dataclasses.replace(params, num_cores_or_threads=mesh.size)
    operands = [*map(get, captured.references)]
    found = late("simulator of kernels")(kernel, params, None, operands, mesh.axis_names)
    for ref, value in zip(captured.written, found, strict=True):
        write(ref, ..., value)


def kernel(
    body: Any = _OMITTED,
    out_type: Any = (),
    *,
    mesh: Any,
    scratch_types: Any = (),
    compiler_params: Any = None,
    interpret: Any = False,
    cost_estimate: Any = None,
    debug: bool = False,
    name: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Any:
    """A function of arrays that runs `body` on each core of `mesh`, with references to the arrays, the results, and scratch.

    `out_type` has the shapes and dtypes of the results, one or a tree. Without a `body` it gives a decorator. Cores run one
    after another (`core_map`); the other parameters are hints. Raises: UnsupportedError for several bodies.

    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x = np.arange(3, dtype=np.float32)
    >>> kernel(double, x, mesh=create_tensorcore_mesh("core"))(x)
    Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(body, (tuple, list)) or isinstance(mesh, (tuple, list)):
        raise UnsupportedError("kernel: several bodies on several meshes are not supported.")
    mesh = _checked_mesh("kernel", mesh)

    def decorate(body: Function) -> Function:
        check_callable(body, "kernel")

        def run(*args: Any) -> Any:
            in_refs = tree_map(new_ref, args)
            out_refs = tree_map(empty_ref_like, out_type, is_leaf=_is_type)
            # A tuple or list of results are several arguments; another tree is one.
            outs = out_refs if isinstance(out_refs, (tuple, list)) else (out_refs,)
            core_map(mesh, scratch_shapes=scratch_types, name=name, interpret=interpret)(
                lambda *more, **named: body(*in_refs, *outs, *more, **named)
            )
            return tree_map(freeze, out_refs)

        run.__name__ = run.__qualname__ = name or name_of(body)
        return jit(run, inline=True)

    return decorate if body is _OMITTED else decorate(body)


def _is_type(x: Any) -> bool:
    return isinstance(x, MemoryRef) or (hasattr(x, "shape") and hasattr(x, "dtype"))


def _checked_mesh(caller: str, mesh: Any) -> CoreMesh:
    if not isinstance(mesh, CoreMesh):
        raise ArgumentTypeError(
            f"{caller} takes a mesh of cores.",
            got=f"got {mesh!r:.60}",
            do='Make one: `tpu.create_tensorcore_mesh("core", num_cores=2)`.',
        )
    return mesh


def on_core_at(jaxpr: Jaxpr, position: dict[str, int]) -> Jaxpr:
    """A program in which the position along each of these axes is known."""
    known: dict[Any, Any] = {}
    equations = []
    for equation in jaxpr.equations:
        if equation.primitive is axis_index_p and equation.params.axis_name in position:
            [result] = equation.results
            known[result] = Literal(np.int32(position[equation.params.axis_name]), result.aval)
            continue
        operands = [known.get(a, a) for a in equation.operands]
        params = equation.params
        if isinstance(equation.primitive, HigherOrderPrimitive):
            params = with_programs(params, functools.partial(on_core_at, position=position))
        equations.append(equation.replace(operands=operands, params=params))
    outvars = [known.get(a, a) for a in jaxpr.outvars]
    return jaxpr.replace(equations=equations, outvars=outvars)
