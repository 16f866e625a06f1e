"""The version that `jax` has while pellucid answers for it."""

from __future__ import annotations

import re

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.xla.compile import jaxlib_version
from pellucid.version import reference_bound, reference_version

_chosen: list[str] = []


def reported_version() -> str:
    """The version reported as `jax.__version__`: the chosen one, else that of the installed jaxlib if supported, else
    the reference's.

    >>> is_supported(reported_version())
    True
    """
    if _chosen:
        return _chosen[-1]
    version = ".".join(map(str, numbers(jaxlib_version)))
    return version if is_supported(version) else reference_version


def is_supported(version: str) -> bool:
    """Whether `version` is a release that pellucid may answer for.

    >>> is_supported("0.10.2"), is_supported("0.4.0"), is_supported("new")
    (True, False, False)
    """
    is_release = re.fullmatch(r"\d+\.\d+\.\d+", version) is not None
    return is_release and numbers(reference_version) <= numbers(version) < numbers(reference_bound)


def answer(version: str) -> None:
    """Answer `version` from now on.

    Raises: ArgumentValueError for a version that pellucid doesn't support.

    >>> answer("0.4.0")
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: pellucid answers for versions of jax from 0.10.2 on, below 0.13.
      got '0.4.0'
      Names and semantics are those of 0.10.2.
    """
    if not is_supported(version):
        raise ArgumentValueError(
            f"pellucid answers for versions of jax from {reference_version} on, below {reference_bound}.",
            got=f"got {version!r}",
            do=f"Names and semantics are those of {reference_version}.",
        )
    _chosen[:] = [version]


def numbers(version: str) -> tuple[int, ...]:
    """The three numbers of a release.

    >>> numbers("0.10.2.dev1")
    (0, 10, 2)
    """
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
