"""The job of this process as `jax._src.distributed`."""

from __future__ import annotations

from typing import Any

from pellucid.runtime.distributed import initialize


class _State:
    """State of the job; without one, `client` is None, and the others are those of one process."""

    @property
    def client(self) -> Any:
        """The client of the coordination service."""
        return self._of_job("client", None)

    @property
    def process_id(self) -> int:
        """The index of this process."""
        return self._of_plan("process_id", 0)

    @property
    def num_processes(self) -> int:
        """The number of processes."""
        return self._of_plan("num_processes", 1)

    def _of_job(self, name: str, default: Any) -> Any:
        if not initialize.is_initialized():
            return default
        return getattr(initialize.job("jax._src.distributed"), name)

    def _of_plan(self, name: str, default: Any) -> Any:
        plan = self._of_job("plan", None)
        return default if plan is None else getattr(plan, name)


global_state = _State()
