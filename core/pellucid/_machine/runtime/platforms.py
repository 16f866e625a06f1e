"""Platforms and their devices: starting them, their priorities, and the default."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from pellucid._machine.base import (
    DeviceError,
    DistributedError,
    Names,
    PlatformError,
    config,
    logger,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import shaped_array
from pellucid._machine.sharding import make_single_device_sharding
from pellucid._machine.xla import (
    Client,
    Device,
    JaxRuntimeError,
    client as xla_client,
    hlo_transformations,
    plugins,
)

from . import peers

T = TypeVar("T")
Backend = str | Client | None
"""A platform by name, its client, or None for the default one."""
_ALIASES = {
    "cpu": ("cpu",),
    "gpu": ("cuda", "rocm"),
    "cuda": ("cuda",),
    "rocm": ("rocm",),
    "tpu": ("tpu",),
}
_lock = threading.RLock()
_clients: dict[str, Client] = {}
_failures: dict[str, str] = {}
_default: list[str] = []


def _make_cpu() -> Client:
    n_devices = xla_client.cpu_device_count(config.num_cpu_devices.value)
    asynchronous = config.cpu_enable_async_dispatch.value
    if not peers.jobs:
        return xla_client.make_cpu_client(n_devices, asynchronous=asynchronous)
    [job] = peers.jobs
    options = {"asynchronous": asynchronous, **job.cpu_options()}
    client = peers.wait(lambda: xla_client.make_cpu_client(n_devices, **options))
    job.note_gloo()
    return client


def _sharding_of(device: Device, memory_kind: str | None = None):
    return make_single_device_sharding(device, memory_kind=memory_kind)


def _make_cuda() -> Client:
    visible = config.cuda_visible_devices.value
    options = dict(config.pjrt_client_create_options.value or {})
    if visible != "all":
        options["visible_devices"] = [int(number) for number in visible.split(",")]
    if not peers.jobs:
        return plugins.make_cuda_client(options)
    [job] = peers.jobs
    return plugins.make_cuda_client(options | job.accelerator_options(), job.client)


def _make_client(name: str) -> Client:
    return plugins.make_named_client(name, config.pjrt_client_create_options.value)


_makers: dict[str, Callable[[], Client]] = {
    "cpu": _make_cpu,
    "cuda": _make_cuda,
    "tpu": lambda: plugins.make_tpu_client(config.pjrt_client_create_options.value),
}


def register_platform(name: str, make: Callable[[], Client]) -> None:
    """Add a platform; `make()` starts it and returns its client."""
    _makers[name] = make
    _ALIASES[name] = (name,)


def _add_named_plugins() -> None:
    for name in plugins.named_plugins(logger.warning):
        if name not in _makers:
            register_platform(name, functools.partial(_make_client, name))


def _installed_platforms() -> list[str]:
    """Platforms with a plugin, best first; the CPU comes last."""
    files = {"tpu": plugins.tpu_library(), "cuda": plugins.cuda_plugin()}
    names = [name for name in _makers if files.get(name, name) is not None]
    return sorted(names, key=plugins.rank)


def _start_all() -> None:
    if _default:
        return
    with _lock:
        if _default:
            return
        _add_named_plugins()
        text = config.platforms.value
        stated = [name.strip() for name in (text or "").split(",") if name.strip()]
        for name in stated or _installed_platforms():
            problems = _start(name)
            if problems and stated:
                raise PlatformError(
                    f"platform {name!r} could not be started.",
                    got=problems,
                    do="Set the option `platforms` to one that can, for example 'cpu'.",
                )
            if problems:
                logger.warning(
                    "a plugin for %s is installed but could not be started (%s); using the next platform",
                    name, "; ".join(problems),
                )  # fmt: skip
        if not _clients:
            raise PlatformError(
                "no platform could be started.", got=[f"{k}: {v}" for k, v in _failures.items()]
            )
        first = next(iter(_clients))
        xla_client.answer_lookups(_clients.get("cpu", _clients[first]), shaped_array, _sharding_of)
        _default.append(first)
    if config.compilation_cache_session.value:
        late("load ahead")()


def names_of(platform: str) -> Names:
    """The platforms that `platform` may mean, best first, started or not: 'gpu' is CUDA or ROCm.

    Raises PlatformError for an unknown name.
    """
    names = _ALIASES.get(platform)
    if names is None:
        raise PlatformError(
            f"there is no platform {platform!r}.",
            do=f"Known platforms: {', '.join(sorted(_ALIASES))}.",
        )
    return names


def platform_names() -> Collection[str]:
    """All known names of platforms, started or not."""
    return _ALIASES.keys()


def canonical_names(names: Sequence[str]) -> Names:
    """The canonical platforms for `names`, without repetitions; for 'gpu' the first one.

    Raises: PlatformError for an unknown name.

    >>> canonical_names(["cpu", "gpu", "cuda"])
    ('cpu', 'cuda')
    """
    return tuple(dict.fromkeys(names_of(name)[0] for name in names))


def _start(platform: str) -> list[str]:
    """Start the first possible platform for the name `platform`; if none starts, returns the problem of each."""
    problems = []
    for name in names_of(platform):
        if name in _clients:
            return []
        try:
            if name not in _makers:
                raise plugins.PluginMissingError(f"no plugin for {name} is installed")
            _clients[name] = _makers[name]()
        except DistributedError:
            raise
        except (JaxRuntimeError, OSError) as error:
            _failures[name] = str(error)
            problems.append(f"{name}: {error}")
            continue
        try:
            hlo_transformations.register_with_client(name, _clients[name])
        except RuntimeError as error:
            logger.warning("transformations of modules don't run on %s: %s", name, error)
        return []
    return problems


def client(platform: Backend = None) -> Client:
    """The client of `platform` ('cpu', 'gpu', 'cuda', 'tpu'), by default of the default one; a client is returned
    itself.

    >>> client("cpu").platform
    'cpu'
    """
    if isinstance(platform, Client):
        return platform
    _start_all()
    return _clients[default_platform() if platform is None else _running_platform(platform)]


def _running_platform(platform: str) -> str:
    """Name of the running platform for the name `platform`; raises PlatformError if there is none."""
    for name in _ALIASES.get(platform, (platform,)):
        if name in _clients:
            return name
    raise PlatformError(  # libraries search for the first words
        f"Unknown backend: platform {platform!r} is not available.",
        got=[f"started: {', '.join(_clients)}", *[f"{k}: {v}" for k, v in _failures.items()]],
        do="Use one of the started platforms, or set the option `platforms` before any device is used.",
    )


def default_platform() -> str:
    """Name of the platform that is used by default."""
    _start_all()
    name = config.platform_name.value
    return _running_platform(name) if name else _default[0]


def default_backend() -> str:
    """'cpu', 'gpu' or 'tpu': the kind of the default platform.

    >>> pl.default_backend() == pl.devices()[0].platform
    True
    """
    name = default_platform()
    return "gpu" if name in ("cuda", "rocm") else name


def devices(backend: Backend = None) -> list[Device]:
    """All devices of `backend` (by default, of the best platform), in order of id.

    Raises: PlatformError for a platform that isn't there.

    >>> devices("cpu")[0]
    CpuDevice(id=0)
    """
    return list(client(backend).devices())


def local_devices(
    process_index: int | None = None, backend: Backend = None, host_id: int | None = None
) -> list[Device]:
    """Devices of this process, or of process `process_index`; `host_id` is its deprecated name.

    Raises: DeviceError for a process that isn't there.

    >>> [device.process_index for device in local_devices(backend="cpu")[:2]]
    [0, 0]
    """
    if host_id is not None:
        warnings.warn(
            "`host_id` of `local_devices` is deprecated; use `process_index`.",
            DeprecationWarning,
            stacklevel=2,
        )
    index = host_id if process_index is None else process_index
    chosen = client(backend)
    if index is None or index == chosen.process_index():
        return list(chosen.local_devices())
    if index not in process_indices(backend):
        raise DeviceError(
            f"there is no process {index}.", got=f"processes: {process_indices(backend)}"
        )
    return [d for d in chosen.devices() if d.process_index == index]


def device_count(backend: Backend = None) -> int:
    """Number of devices, of all processes.

    >>> device_count("cpu") == len(devices("cpu"))
    True
    """
    return int(client(backend).device_count())


def local_device_count(backend: Backend = None) -> int:
    """Number of this process's devices.

    >>> local_device_count("cpu") == len(local_devices(backend="cpu"))
    True
    """
    return int(client(backend).local_device_count())


def process_index(backend: Backend = None) -> int:
    """Index of this process among those that share the devices.

    >>> pl.process_index()
    0
    """
    return int(client(backend).process_index())


def process_indices(backend: Backend = None) -> list[int]:
    """Indices of all processes.

    >>> pl.process_indices()
    [0]
    """
    return sorted({d.process_index for d in client(backend).devices()})


def process_count(backend: Backend = None) -> int:
    """Number of processes.

    >>> pl.process_count()
    1
    """
    return max(d.process_index for d in client(backend).devices()) + 1


def _deprecated_alias(name: str, function: Callable[..., T]) -> Callable[..., T]:
    """`function` under its deprecated `name`."""

    @functools.wraps(function)
    def call_with_warning(backend: Backend = None) -> T:
        message = f"`{name}` is deprecated; use `{function.__name__}`."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return function(backend)

    call_with_warning.__name__ = name
    call_with_warning.__doc__ = f"""Deprecated name of `{function.__name__}`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     pl.{name}() == pl.{function.__name__}()
    True
    """
    return call_with_warning


host_id = _deprecated_alias("host_id", process_index)
host_ids = _deprecated_alias("host_ids", process_indices)
host_count = _deprecated_alias("host_count", process_count)


def default_device() -> Device:
    """The device of new arrays in this thread: the option `default_device`, else the first local one.

    >>> default_device() == pl.local_devices()[0]
    True
    """
    chosen = config.default_device.value
    if chosen is None:
        return _first_device()
    if isinstance(chosen, str):
        return client(chosen).local_devices()[0]
    return chosen


_first: list[Device] = []


def _first_device() -> Device:
    if config.platform_name.value:
        return client().local_devices()[0]
    if not _first:
        _first.append(client().local_devices()[0])
    return _first[0]


def started_clients() -> list[Client]:
    """Clients of the running platforms; starts none."""
    return list(_clients.values())


def clients_by_platform() -> dict[str, Client]:
    """Clients of the running platforms by name; starts none."""
    return dict(_clients)


def known_platforms() -> frozenset[str]:
    """The names of all platforms that could be started, installed or not.

    >>> "cpu" in known_platforms()
    True
    """
    _add_named_plugins()
    return frozenset(_makers)


def check_none_started(who: str) -> None:
    """Raise DistributedError on behalf of `who` if devices were used already."""
    if _clients:
        raise DistributedError(
            f"{who}: devices were already used, so this process can't join others any more.",
            got=f"started: {', '.join(_clients)}",
            do="Call it before anything that touches a device: devices(), arrays, compiled calls.",
        )


def stop_all() -> None:
    """Drop all clients, so that the next use starts new ones (existing arrays stay usable)."""
    with _lock:
        _clients.clear()
        _failures.clear()
        _default.clear()
        _first.clear()


def platform_of(chosen: Client) -> str:
    """Pellucid's name for the platform of a client: 'cpu', 'cuda', 'rocm' or 'tpu'."""
    for name, client in _clients.items():
        if client is chosen:
            return name
    # A client of devices that aren't there calls NVIDIA's by their kind; no other plugin has GPUs to compile for.
    return "cuda" if chosen.platform == "gpu" else str(chosen.platform)
