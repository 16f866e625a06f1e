"""Executables on disk, found again by the content of their program."""

from __future__ import annotations

from typing import Any

from pellucid.base import config


def folder() -> str | None:
    """The cache's folder, or None while the cache is off."""
    return config.compilation_cache_dir.value if config.enable_compilation_cache.value else None


def load(lowered: Any, options: Any, overrides: Any) -> Any:
    """The stored executable of `lowered`, loaded; None if there is none."""
    return None


def store(lowered: Any, options: Any, overrides: Any, loaded: Any, seconds: float) -> None:
    """Keep `loaded` for other processes."""
