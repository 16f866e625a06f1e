"""How XLA compiles what tests run: quickly, and the programs of one file in eight as it does for users."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import rotation

import pellucid
from pellucid._machine.compilation import pipeline

QUICK = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
"""XLA's flags by which programs compile in a third of the time; compilations are most of what tests cost."""
USUAL = {"xla_cpu_use_fusion_emitters": True, "xla_backend_optimization_level": 3}
"""XLA's defaults of these flags, as options of one compilation."""
NAME = "quick compilation"
"""Name of the plugin, which is there where XLA was started with QUICK."""


def compiles_as_users(nodeid: str) -> bool:
    """Whether the test is in one of the files whose programs this run compiles as XLA does for users."""
    return rotation.part_of(nodeid.partition("::")[0]) == rotation.part_of_run()


class Compilation:
    """Plugin that changes how programs compile between files, in this process and in those that it starts."""

    def __init__(self) -> None:
        self.is_usual = False
        self._patch = pytest.MonkeyPatch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Change before a test's fixtures are made, and forget what was compiled otherwise."""
        if compiles_as_users(item.nodeid) == self.is_usual:
            return
        pellucid.device_put(1) + 1  # XLA reads its flags when it first compiles, and never again
        self.is_usual = not self.is_usual
        pellucid.clear_caches()
        oracle.close_all()  # they compile by the flags with which they started
        self._patch.undo()
        if self.is_usual:
            self._patch.setenv("XLA_FLAGS", "")
            self._patch.setattr(pipeline, "compile_options", usual_options)


_options = pipeline.compile_options


def usual_options(devices: Any, overrides: Any = (), **keywords: Any) -> Any:
    """`compile_options` where XLA was started with QUICK: with its defaults, unless `overrides` has others."""
    return _options(devices, [*(USUAL | dict(overrides)).items()], **keywords)
