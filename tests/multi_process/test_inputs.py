"""Right and wrong input to what spans processes: the same values as in jax, and errors of the same kinds."""

import pytest
from launcher import launch, results

pytestmark = [pytest.mark.multi_process, pytest.mark.oracle]

JAX = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PJRT_NPROC": "8"}


def agree(ours, theirs):
    """Whether both are the same value, or ours is an error of all the builtin classes of theirs."""
    if ours[0] == theirs[0] == "error":
        return set(theirs[1]) <= set(ours[1])
    return ours == theirs


def test_input_is_taken_and_refused_as_in_jax():
    ours = results(launch("run", 2, module="inputs_of_pellucid"))
    theirs = results(launch("run", 2, module="inputs_of_jax", environment=JAX))
    for process in range(2):
        pairs = {name: (text, theirs[process][name]) for name, text in ours[process].items()}
        assert not {name: pair for name, pair in pairs.items() if not agree(*pair)}
