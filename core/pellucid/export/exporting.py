"""`export`: a jitted function, lowered for certain types of arguments and for one or more platforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import Traced
from pellucid._machine.ir import Values, guard_effect
from pellucid._machine.lowering.module import ordered_effects_of
from pellucid._machine.runtime import platforms as known_platforms
from pellucid._machine.transforms.gradient import vjp
from pellucid._machine.xla.mlir import portable_artifact

from .checks import DisabledSafetyCheck, check_custom_calls
from .errors import UnexportableError
from .exported import Exported, maximum_supported_calling_convention_version, over_abstract_meshes


def default_export_platform() -> str:
    """The platform that functions are exported for by default: that of this process.

    >>> default_export_platform()
    'cpu'
    """
    return known_platforms.default_platform()


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """A function that exports the jitted `fun_jit` for arguments of the types that it gets.

    The arguments may be ShapeDtypeStructs. `platforms` are names such as "cpu", "cuda", "rocm" and "tpu", by default
    that of this process; with several, operations that differ between them are a choice when the program runs.
    `disabled_checks` allow what is refused otherwise.

    Raises: ArgumentValueError for a function that is not jitted; UnexportableError for programs that call Python or use references of the caller; ExportError for native code that nobody keeps
    stable.

    >>> f = pl.jit(lambda x, y: x @ y)
    >>> struct = pl.ShapeDtypeStruct((2, 2), np.float32)
    >>> exported = export(f, platforms=["cpu", "tpu"])(struct, struct)
    >>> exported.platforms, exported.out_avals
    (('cpu', 'tpu'), (ShapedArray(float32[2,2]),))
    """
    if not (hasattr(fun_jit, "trace") and hasattr(fun_jit, "lower")):
        raise ArgumentValueError(
            "export needs a jitted function.",
            got=f"got {type(fun_jit).__name__}",
            do="Use `export(jit(f))`.",
        )
    if _override_lowering_rules:
        raise UnsupportedError("export: lowering rules can't be replaced for one program.")
    names = _platform_names(platforms or (default_export_platform(),))

    def exporting(*args: Any, **kwargs: Any) -> Exported:
        return _export(fun_jit.trace(*args, **kwargs), names, tuple(disabled_checks))

    return exporting


def _platform_names(platforms: Sequence[str]) -> tuple[str, ...]:
    """The platforms by canonical name, without repetitions; names that only plugins on other machines know are kept."""
    if isinstance(platforms, str):
        raise ArgumentTypeError(
            "export needs a sequence of platforms.",
            got=f"platforms={platforms!r}",
            do=f"Write platforms=[{platforms!r}].",
        )
    known = known_platforms.platform_names()
    return tuple(
        dict.fromkeys(
            known_platforms.names_of(name)[0] if name in known else name for name in platforms
        )
    )


def _export(
    traced: Traced, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...]
) -> Exported:
    name = traced.fun_name
    if traced.takes_references:
        raise UnexportableError(
            f"`{name}` can't be exported: it reads or writes references that exist outside of it.",
            do="Take and return their values instead.",
        )
    lowered = traced.lower_portably(platforms)
    module, request = lowered.module, lowered.request
    if module.host_callbacks or module.keep_alive:
        raise UnexportableError(
            f"`{name}` can't be exported: it calls Python functions of this process.",
            do="Leave out debug.print, debug.callback, pure_callback and io_callback.",
        )
    check_custom_calls(name, module.module, disabled)
    in_avals, out_avals = tuple(lowered.in_avals), tuple(traced.flat_out_avals)
    unplaced_arguments, unplaced_results = (None,) * len(in_avals), (None,) * len(out_avals)
    is_partitioned = request.is_partitioned
    effects = traced.effects - {guard_effect}  # guards are left out when the module is lowered
    return Exported(
        fun_name=name,
        in_tree=traced.in_tree,
        in_avals=in_avals,
        out_tree=traced.out_tree,
        out_avals=out_avals,
        _has_named_shardings=True,
        _in_named_shardings=over_abstract_meshes(
            request.argument_shardings if is_partitioned else unplaced_arguments
        ),
        _out_named_shardings=over_abstract_meshes(
            (is_partitioned and request.result_shardings) or unplaced_results
        ),
        in_shardings_hlo=unplaced_arguments,
        out_shardings_hlo=unplaced_results,
        nr_devices=request.placement.size,
        platforms=platforms,
        ordered_effects=module.ordered_effects,
        unordered_effects=tuple(sorted(effects - set(ordered_effects_of(effects)), key=repr)),
        disabled_safety_checks=disabled,
        mlir_module_serialized=portable_artifact(module.module),
        calling_convention_version=maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple([i for i, is_used in enumerate(lowered.used) if is_used]),
        uses_global_constants=len(platforms) > 1 or lowered.options.equations is not None,
        _get_vjp=lambda exported: _export_vjp(traced, exported),
    )


def _export_vjp(traced: Traced, exported: Exported) -> Exported:
    n_arguments = len(exported.in_avals)

    def derivative(*operands: Any) -> Values:
        _, pullback = vjp(traced.flat_call, *operands[:n_arguments])
        return pullback(list(operands[n_arguments:]))

    derivative.__name__ = f"{exported.fun_name}_vjp"
    tangents = [aval.tangent() for aval in exported.out_avals]
    shardings = (*exported._in_named_shardings, *exported._out_named_shardings)
    stated: dict[str, Any] = (
        {}
        if all(s is None for s in shardings)
        else {"in_shardings": shardings, "out_shardings": exported._in_named_shardings}
    )
    structs = [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in (*exported.in_avals, *tangents)
    ]
    return _export(
        jit(derivative, **stated).trace(*structs), exported.platforms,
        tuple(exported.disabled_safety_checks),
    )  # fmt: skip
