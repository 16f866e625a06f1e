"""Registration of native functions and of the types of their states."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.xla import ffi_targets

_STAGES = ("instantiate", "prepare", "initialize", "execute")


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    **kwargs: Any,
) -> None:
    """Register a native function under `name` for calls from programs on `platform`, "cpu", "gpu" or "CUDA".

    `fn` is a capsule of its address (see `pycapsule`), or a dictionary of capsules, by stage: "instantiate",
    "prepare", "initialize", "execute". `api_version` is 1 for handlers of XLA's typed interface, 0 for functions of
    the older one. `traits=` takes XLA's bits of a handler's traits.

    Raises: ArgumentTypeError for anything that isn't a capsule; ArgumentValueError for an unknown platform.

    >>> import ctypes
    >>> register_ffi_target("absolute_value", pycapsule(ctypes.CDLL(None).abs), api_version=0)
    """
    stages = fn if isinstance(fn, Mapping) else {"execute": fn}
    for stage, capsule in stages.items():
        if stage not in _STAGES or type(capsule).__name__ != "PyCapsule":
            raise ArgumentTypeError(
                f"register_ffi_target of {name!r} needs a capsule of the function, or capsules by stage.",
                got=f"{stage}: {type(capsule).__name__}",
                do=f"Load the function with ctypes and wrap it: `pycapsule(library.function)`. Stages are "
                f"{', '.join(_STAGES)}.",
            )
    if api_version not in (0, 1):
        raise ArgumentValueError(
            f"register_ffi_target of {name!r}: there is no such version of the interface.",
            got=f"api_version={api_version!r}",
            do="Give 1 for a handler of the typed interface, 0 for a function of the older one.",
        )
    traits = kwargs.pop("traits", 0)
    if kwargs:
        raise ArgumentTypeError(
            "register_ffi_target got unknown keywords.", got=", ".join(kwargs), do="It takes `traits`."
        )  # fmt: skip
    target = dict(fn) if isinstance(fn, Mapping) else fn
    ffi_targets.register_target(
        name, target, _checked_platform(name, platform), api_version, traits
    )


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Register a type of states that handlers keep between stages or calls.

    `type_registration` is a dictionary of capsules, "type_id" with the address of the type's id and, optionally,
    "type_info" with that of what XLA must know of it.

    Raises: ArgumentTypeError for anything else; ArgumentValueError for an unknown platform.

    >>> import ctypes
    >>> type_id = ctypes.c_int64(0)  # the library's, a static member of its class
    >>> register_ffi_type("counter", {"type_id": pycapsule(ctypes.pointer(type_id))})
    """
    is_dictionary = isinstance(type_registration, Mapping)
    capsules = dict(type_registration) if is_dictionary else {}
    if "type_id" not in capsules or not {"type_id", "type_info"}.issuperset(capsules):
        raise ArgumentTypeError(
            f"register_ffi_type of {name!r} needs a dictionary of capsules.",
            got=f"keys {', '.join(capsules) or 'none'}"
            if is_dictionary
            else type(type_registration).__name__,
            do='Give `{"type_id": pycapsule(...)}`, with "type_info" if the type has one.',
        )
    ffi_targets.register_type(name, capsules, _checked_platform(name, platform))


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """The older form of `register_ffi_type`, which jaxlib no longer has.

    Raises: UnsupportedError.

    >>> register_ffi_type_id("state", None)
    Traceback (most recent call last):
    ...
    pellucid.errors.UnsupportedError: register_ffi_type_id isn't supported by this jaxlib.
      Call `register_ffi_type(name, {"type_id": obj})`.
    """
    raise UnsupportedError(
        "register_ffi_type_id isn't supported by this jaxlib.",
        do='Call `register_ffi_type(name, {"type_id": obj})`.',
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Let XLA cut calls of `name` over devices along their batch axes.

    Those are the leading axes that `vmap` added by "broadcast_all" or "expand_dims"; without this, each device gets
    whole operands.

    >>> register_ffi_target_as_batch_partitionable("absolute_value")
    """
    ffi_targets.register_as_batch_partitionable(name)


def pycapsule(funcptr: Any) -> Any:
    """The address of a function or object of a library loaded by `ctypes`, as a capsule for `register_ffi_target`.

    Raises: ArgumentTypeError for anything that isn't a pointer of `ctypes`.

    >>> import ctypes
    >>> type(pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    try:
        address = ctypes.cast(funcptr, ctypes.c_void_p)
    except (TypeError, ctypes.ArgumentError):
        raise ArgumentTypeError(
            "pycapsule needs a function of a library loaded by ctypes.",
            got=f"got {type(funcptr).__name__}",
            do="Load it: `ctypes.cdll.LoadLibrary(path).function`.",
        ) from None
    if address.value is None:
        raise ArgumentValueError("pycapsule got a null pointer.")
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )
    return prototype(("PyCapsule_New", ctypes.pythonapi))(address, None, None)


def include_dir() -> str:
    """The folder of the C++ headers of XLA's interface, for the compiler's option `-I`.

    >>> import pathlib
    >>> pathlib.Path(include_dir(), "xla/ffi/api/ffi.h").exists()
    True
    """
    return str(ffi_targets.include_folder())


def _checked_platform(name: str, platform: str) -> str:
    if platform not in ffi_targets.PLATFORMS:
        raise ArgumentValueError(
            f"native functions can't be registered for this platform: {name!r}.",
            got=f"platform={platform!r}",
            do=f"Give one of {', '.join(map(repr, ffi_targets.PLATFORMS))}.",
        )
    return platform
