"""An in-memory cache of executables, keyed by the input of XLA: module content, options, devices and host functions.

A redefined function is traced and lowered again. If the program is the same as an earlier one, XLA needn't compile it
again. Captured arrays are operands of the module, so entries hold no arrays.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pellucid._machine.base import clearing, strict_zip
from pellucid._machine.ir import Jaxpr, subjaxprs
from pellucid._machine.lowering.custom_calls import identity_of
from pellucid._machine.lowering.module import LoweredModule, Origin
from pellucid._machine.runtime.executable import Precompiled
from pellucid._machine.runtime.platforms import platform_of
from pellucid._machine.xla import hlo_transformations, mlir, module_id
from pellucid._machine.xla.compile import LoadedExecutable

MAX_BYTES = 256 << 20
"""Maximum estimated bytes of executables that are kept while unused."""
_FIXED_BYTES = 320 << 10
_BYTES_PER_EQUATION = 14 << 10
"""Estimated memory per equation of an executable; measured on CPUs: 0.43 MB for 8 equations, 1.5 for 80, 7 for 480."""


class Loaded:
    """An XLA executable, with metadata of the programs that share it."""

    def __init__(
        self,
        executable: LoadedExecutable,
        module: LoweredModule,
        precompiled: Precompiled | None = None,
    ) -> None:
        self.executable = executable
        self.host_callbacks = module.host_callbacks
        """Host functions, which keys identify by object: they stay alive as long as this."""
        self.host_failures = module.host_failures
        """Lists to which its host functions append failures."""
        self.precompiled = precompiled
        """Metadata of an executable from disk, in which ids are those of the process that compiled it."""
        ids = [origin.id for origin in module.origins]
        self.equation_ids = tuple(ids if precompiled is None else precompiled.origins)
        """Ids in the executable's metadata, in the order of lowering."""

    def facts_for(self, origins: Sequence[Origin]) -> Precompiled:
        """Metadata for a program that was lowered from `origins` and shares the executable."""
        by_id: Mapping[int, Origin] = {}
        if len(self.equation_ids) == len(origins):
            by_id = dict(strict_zip(self.equation_ids, origins))
        if self.precompiled is not None:
            return self.precompiled._replace(origins=by_id)
        return Precompiled("memory", by_id, self._program_id, b"", b"")

    @functools.cached_property
    def _program_id(self) -> int:
        """The executable's number in recordings; XLA copies the whole module to return it (20 ms for 12 layers)."""
        return module_id(self.executable.hlo_modules()[0])


class _Executables:
    """Executables by key; the most recently used ones, up to `max_bytes`.

    Programs that call host functions are kept only while something else uses them, because these functions may refer to
    arrays.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Loaded, int]] = OrderedDict()
        self._used: weakref.WeakValueDictionary[Hashable, Loaded] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Loaded | None:
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return self._used.get(key)
            self._kept.move_to_end(key)
            return entry[0]

    def add(self, key: Hashable, loaded: Loaded, n_bytes: int) -> None:
        """Store `loaded`, of an estimated size of `n_bytes`; only as long as it is used if it calls host functions."""
        with self._lock:
            self._used[key] = loaded
            if loaded.host_callbacks or n_bytes > self.max_bytes or key in self._kept:
                return
            self._kept[key] = loaded, n_bytes
            self.n_bytes += n_bytes
            while self.n_bytes > self.max_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self.n_bytes -= freed

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._used.clear()
            self.n_bytes = 0


executables = _Executables(MAX_BYTES)
clearing(executables.clear)


def content_of(lowered: Any) -> bytes | None:
    """The module of a program without locations. None if it contains addresses of this process's objects, or if a
    user's function transforms it, so that the content doesn't determine the executable.
    """
    if lowered.module.keep_alive or hlo_transformations.any_for(
        platform_of(lowered.request.placement.client)
    ):
        return None
    return mlir.bytecode_without_locations(lowered.module.module)


def key_of(lowered: Any, options: Any, content: bytes) -> Hashable:
    """Everything that determines an executable and the names in it: content, options, devices, host functions and
    scopes.
    """
    module, placement = lowered.module, lowered.request.placement
    digest = hashlib.sha256(content)
    digest.update(options.SerializeAsString())
    # XLA's metadata contain the names of operations, which profiles and costs show.
    digest.update("\n".join([f"{o.path} {o.primitive}" for o in module.origins]).encode())
    host_functions = tuple(map(identity_of, module.host_callbacks))
    return digest.digest(), placement.client, tuple(placement.devices), host_functions


def size_of(jaxpr: Jaxpr) -> int:
    """Estimated bytes in memory of a program's executable; XLA doesn't report sizes on CPUs."""
    return _FIXED_BYTES + _BYTES_PER_EQUATION * _equation_count(jaxpr)


def _equation_count(jaxpr: Jaxpr) -> int:
    """Number of equations of a program; inner programs count once per call, because XLA inlines calls."""

    def count() -> int:
        return sum(1 + sum(map(_equation_count, subjaxprs(e.params))) for e in jaxpr.equations)

    return jaxpr.remembered("equation count", count)
