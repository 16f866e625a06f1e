"""A disk cache of executables, keyed by the content of programs.

A file consists of a line with its kind, a line with the digest of the rest, and the content. An entry contains a header
in JSON, the compressed executable and, if the executable holds only what loading needs (`xla/serialized.py`), the
compressed program. A session contains the keys of its programs. Loading an executable runs code, so the folder must
belong to the user (or root), and nobody else may write to it. Files of other origin, damaged files and those of other
versions are skipped with a warning; nothing is parsed before its digest is checked. Files are created by renaming, so
that processes can share the folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import stat
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid._machine.base import (
    CacheError,
    Function,
    cached,
    clearing,
    config,
    logger,
    strict_zip,
)
from pellucid._machine.base.monitoring import forget_cache
from pellucid._machine.lowering.module import Origin
from pellucid._machine.runtime.executable import Precompiled
from pellucid._machine.runtime.platforms import clients_by_platform, platform_of
from pellucid._machine.xla import (
    Client,
    Device,
    JaxRuntimeError,
    mlir,
    module_id,
    serialized,
)
from pellucid._machine.xla.compile import (
    CompileOptions,
    LoadedExecutable,
    deserialize,
    jaxlib_version,
)

from .loading_ahead import MAX_PROGRAMS, SessionExecutables

_MAGIC = b"pellucid executable 7\n"
_SESSION_MAGIC = b"pellucid session 1\n"
_SUFFIX = ".executable"
_SESSION_SUFFIX = ".session"
_ABANDONED_SECONDS = 3600.0
"""Age in seconds at which temporary files of dead processes are deleted."""


# The folder -----------------------------------------------------------------------------------------


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Store executables in the folder `path` from now on; None turns the cache off."""
    config.compilation_cache_dir.set(path)
    reset_cache()


def is_initialized() -> bool:
    """Whether executables are stored on disk: a folder is set and usable."""
    return folder() is not None


def reset_cache() -> None:
    """Check the folder again; stored entries are kept."""
    _usable_folder.cache_clear()
    _warned.clear()
    _let_go()
    _session.clear()
    forget_cache()


def folder() -> Path | None:
    """The cache's folder; None if the cache is off or the folder isn't safe to use."""
    path = config.compilation_cache_dir.value
    if not path or not config.enable_compilation_cache.value:
        return None
    return _usable_folder(path)


@cached(8)
def _usable_folder(path: str) -> Path | None:
    home = Path(path).expanduser()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = home.stat()
    except OSError as error:
        _warn(f"the compilation cache is off: its folder {path} can't be used ({error})")
        return None
    if hasattr(os, "getuid") and (
        status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        _warn(
            f"the compilation cache is off: others may write to its folder {path}, and loading an executable "
            f"runs code. Make it yours alone: `chmod 700 {path}`."
        )
        return None
    return home


_warned: set[str] = set()


def _warn(text: str) -> None:
    """Log a warning once; under `raise_persistent_cache_errors`, raise CacheError instead."""
    if config.raise_persistent_cache_errors.value:
        raise CacheError(text)
    if text not in _warned:
        _warned.add(text)
        logger.warning("%s", text)


# Keys -----------------------------------------------------------------------------------------------


def entry_of(lowered: Any, options: Any, content: bytes) -> Path | None:
    """The file of a program's entry, named by a hash of everything that determines the executable; None if the cache is
    off.

    `content` is the module without locations, in which host callbacks are numbers.
    """
    module, placement = lowered.module, lowered.request.placement
    home = folder()
    if home is None:
        return None
    facts = (environment_of(placement.client, placement.devices), len(module.host_callbacks))
    digest = hashlib.sha256(_MAGIC)
    digest.update(repr(facts).encode())
    digest.update(options.SerializeAsString())
    if config.compilation_cache_include_metadata_in_key.value:
        content = mlir.bytecode(module.module)
    digest.update(content)
    return home / f"{digest.hexdigest()}{_SUFFIX}"


def environment_of(client: Client, devices: Sequence[Device]) -> str:
    """A digest of the environment on which executables for `devices`, and how quick they are, depend."""
    facts = (
        jaxlib_version,
        client.platform,
        client.platform_version,
        [d.device_kind for d in devices],
        _processor() if client.platform == "cpu" else "",
        os.environ.get("XLA_FLAGS", ""),
        os.environ.get("LIBTPU_INIT_ARGS", ""),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


@functools.cache
def _processor() -> str:
    """The processor's model and instruction sets, for which code is generated."""
    facts = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        for name in ("model name", "flags", "Features"):
            line = re.search(rf"^{name}\s*:.*$", text, re.MULTILINE)
            facts.append(line.group() if line else "")
    return "|".join(facts)


# Entries --------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    """Metadata of an entry's executable."""

    key: str
    name: str
    seconds: float
    executable_bytes: int
    equation_ids: list[int]
    primitives: str
    program_id: int
    platform: str
    environment: str
    device_ids: list[int]
    options: str
    host_callbacks: int


class _Opened(NamedTuple):
    """An entry with its executable, loaded, and compressed as in `Precompiled` (`content`), as is `program`."""

    loaded: LoadedExecutable
    header: _Header
    content: bytes
    program: bytes


def load(path: Path, lowered: Any, options: Any) -> tuple[LoadedExecutable, Precompiled] | None:
    """The loaded executable of the entry at `path`, with metadata; None if there is no usable one."""
    placement, callbacks = lowered.request.placement, lowered.module.host_callbacks
    programs = programs_of_session()
    opened = programs.take(path.stem) if programs is not None else None
    opened = opened or _load_entry(
        path, lambda _: _loader(placement.client, placement.devices, options, callbacks)
    )
    if opened is None:
        return None
    _note_use(path)
    loaded, header, content, program = opened
    origins = lowered.module.origins
    is_known = header.primitives == _primitives(origins)
    equations = dict(strict_zip(header.equation_ids, origins)) if is_known else {}
    return loaded, Precompiled(
        "disk", equations, header.program_id, content, program, header.seconds
    )


def _loader(
    client: Client, devices: Sequence[Device], options: Any, host_callbacks: Sequence[Any]
) -> Function:
    """A function that loads an executable onto `devices` from its bytes."""
    return functools.partial(
        deserialize, client, devices=devices, options=options, host_callbacks=host_callbacks
    )


def _load_entry(path: Path, loader_of: Callable[[_Header], Function | None]) -> _Opened | None:
    """The entry at `path`, loaded by the function that `loader_of` returns for its header; None if it isn't usable."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(f"an entry of the compilation cache can't be read ({error}); it is compiled anew")
        return None
    try:
        header, content, program = _split_entry(path.stem, data)
        load = loader_of(header)
        if load is None:
            return None
        try:
            loaded = load(zlib.decompress(content))
        except JaxRuntimeError:
            if not program:
                raise
            whole = serialized.with_program(zlib.decompress(content), zlib.decompress(program))
            loaded, content, program = load(whole), zlib.compress(whole, 1), b""
    except (ValueError, KeyError, TypeError, zlib.error, JaxRuntimeError) as error:
        _warn(f"{path} is damaged or foreign ({error}); its program is compiled anew")
        return None
    return _Opened(loaded, header, content, program)


def _split_entry(key: str, data: bytes) -> tuple[_Header, bytes, bytes]:
    """(header, compressed executable, program) of an entry; ValueError if it is damaged or has another key."""
    line, _, content = _unpack_entry(_MAGIC, data).partition(b"\n")
    header = _Header(**json.loads(line))
    if header.key != key:
        raise ValueError("it belongs to another program")
    size = header.executable_bytes
    return header, content[:size], content[size:]


def _pack_entry(magic: bytes, content: bytes) -> bytes:
    """A file's bytes: its kind, the digest, the content."""
    return b"".join((magic, hashlib.sha256(content).hexdigest().encode(), b"\n", content))


def _unpack_entry(magic: bytes, data: bytes) -> bytes:
    """The content of a file; ValueError if it is damaged or of another kind."""
    if not data.startswith(magic):
        raise ValueError("it is of another kind or version")
    digest, _, content = data[len(magic) :].partition(b"\n")
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise ValueError("its content is damaged")
    return content


def store(path: Path, lowered: Any, options: Any, loaded: LoadedExecutable, seconds: float) -> None:
    """Store `loaded`, which took `seconds` to compile, unless that was too fast or it is too small."""
    if seconds < config.persistent_cache_min_compile_time_secs.value:
        return
    try:
        payload = loaded.serialize()
    except JaxRuntimeError:  # the platform can't serialize executables
        return
    if len(payload) < config.persistent_cache_min_entry_size_bytes.value:
        return
    program, placement = b"", lowered.request.placement
    if placement.client.platform == "cpu":
        # The jaxlib that wrote the entry may be newer.
        with contextlib.suppress(serialized.UnknownFormatError):
            payload, program = serialized.without_fusions(payload)
    executable = zlib.compress(payload, 1)
    header = _Header(
        key=path.stem,
        name=lowered.request.name,
        seconds=round(seconds, 3),
        executable_bytes=len(executable),
        equation_ids=[origin.id for origin in lowered.module.origins],
        primitives=_primitives(lowered.module.origins),
        program_id=module_id(loaded.hlo_modules()[0]),
        platform=platform_of(placement.client),
        environment=environment_of(placement.client, placement.devices),
        device_ids=[device.id for device in placement.devices],
        options=options.SerializeAsString().hex(),
        host_callbacks=len(lowered.module.host_callbacks),
    )
    parts = (
        json.dumps(header._asdict()).encode(), b"\n", executable,
        program and zlib.compress(program, 1),
    )  # fmt: skip
    data = _pack_entry(_MAGIC, b"".join(parts))
    limit = config.compilation_cache_max_size.value
    if 0 <= limit < len(data):
        return
    try:
        _write(path, data)
        _note_use(path)
        if limit >= 0:
            _evict(path.parent, limit)
    except OSError as error:
        _warn(f"an executable can't be stored in the compilation cache ({error})")


def keep(path: Path, data: bytes) -> None:
    """Create a file beside the entries, which `path` names; a folder that can't be written to keeps nothing, with a warning."""
    try:
        _write(path, data)
    except OSError as error:
        _warn(f"{path} can't be written ({error})")


def _write(path: Path, data: bytes) -> None:
    """Create a file atomically with its whole content."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".temporary", delete=False) as file:
        try:
            file.write(data)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise


def _evict(home: Path, limit: int) -> None:
    """Delete the least recently used entries and sessions until the rest fits into `limit` bytes.

    Other processes may do so concurrently; a file that is already gone isn't an error.
    """
    entries = []
    now = time.time()
    for path in home.iterdir():
        with contextlib.suppress(OSError):
            status = path.stat()
            if path.suffix in (_SUFFIX, _SESSION_SUFFIX):
                entries.append((status.st_mtime, status.st_size, path))
            elif path.suffix == ".temporary" and now - status.st_mtime > _ABANDONED_SECONDS:
                path.unlink()
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def _primitives(origins: Sequence[Origin]) -> str:
    """A digest of the primitives from which a module was lowered: if it is equal, equations are in the same order."""
    return hashlib.sha256("\n".join(o.primitive for o in origins).encode()).hexdigest()


# Sessions -------------------------------------------------------------------------------------------

_MAX_BYTES_AHEAD = 64 << 20
"""Maximum size of the entries that are loaded ahead."""
_session: dict[str, SessionExecutables[_Opened]] = {}
_session_lock = threading.Lock()


def programs_of_session() -> SessionExecutables[_Opened] | None:
    """The programs of the session named by the option; None without one.

    A thread begins to load the programs that the session's last process used.
    """
    name, home = config.compilation_cache_session.value, folder()
    if not name or home is None:
        return None
    with _session_lock:
        if name not in _session:
            _let_go()
            _session.clear()
            path = home / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}{_SESSION_SUFFIX}"
            _session[name] = SessionExecutables(
                _keys_of(path),
                lambda key: _load_entry(home / f"{key}{_SUFFIX}", _loader_here),
                lambda keys: _write(path, _pack_entry(_SESSION_MAGIC, json.dumps(keys).encode())),
            )
        return _session[name]


def _keys_of(path: Path) -> list[str]:
    """The keys in a session's file that have an entry, as many as are loaded ahead."""
    try:
        keys = json.loads(_unpack_entry(_SESSION_MAGIC, path.read_bytes()))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        _warn(f"{path} is damaged or foreign ({error}); no program of its session is loaded ahead")
        return []
    usable, total = [], 0
    for key in keys[:MAX_PROGRAMS]:
        with contextlib.suppress(OSError, ValueError):
            total += path.with_name(f"{key}{_SUFFIX}").stat().st_size
            if total <= _MAX_BYTES_AHEAD:
                usable.append(key)
    return usable


def _loader_here(header: _Header) -> Function | None:
    """A function that loads the entry's executable in this process; None if it can't be loaded ahead."""
    client = clients_by_platform().get(header.platform)
    if client is None or header.host_callbacks:
        return None
    by_id = {device.id: device for device in client.local_devices()}
    devices = [by_id[i] for i in header.device_ids if i in by_id]
    if len(devices) < len(header.device_ids):
        return None
    if header.environment != environment_of(client, devices):
        return None
    options = CompileOptions.ParseFromString(bytes.fromhex(header.options))
    return _loader(client, devices, options, ())


def _note_use(path: Path) -> None:
    """Record a use of the entry at `path`, in its modification time, by which `_evict` sorts, and in this session."""
    programs = programs_of_session()
    with contextlib.suppress(OSError):
        os.utime(path)  # access times of the file system are unreliable
        if programs is not None:
            programs.note(path.stem)


@clearing
def _let_go() -> None:
    for programs in _session.values():
        programs.let_go()
