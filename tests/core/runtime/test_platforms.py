"""Which platforms are used, and what is said of those that aren't there."""

import pytest

import pellucid as pl
from pellucid._machine.base import config
from pellucid._machine.base.errors import PlatformError


@pytest.mark.parametrize("name", ["gpu", "GPU", "tpu", "nonsense"])
@pytest.mark.parametrize(
    "use", [pl.devices, pl.default_backend, lambda: pl.jit(lambda x: x + 1)(1.0)]
)
def test_a_default_platform_that_is_not_started_is_refused(name, use):
    pl.jit(lambda x: x + 1)(1.0)
    with (
        config.platform_name(name),
        pytest.raises(PlatformError, match=rf"(?s)'{name.lower()}' is not available.*started: cpu"),
    ):
        use()


def test_a_compiled_function_asks_for_the_default_platform_again():
    f = pl.jit(lambda x: x + 1)
    f(1.0)
    with config.platform_name("gpu"), pytest.raises(PlatformError):
        f(1.0)
    with config.platform_name("cpu"):
        assert f(1.0) == 2


def test_devices_of_a_client():
    chosen = pl.devices()[0].client
    assert pl.devices(chosen) == pl.devices()
    assert pl.local_devices(backend=chosen) == pl.local_devices()
    assert pl.device_count(chosen) == pl.device_count()
    assert (pl.process_index(chosen), pl.process_count(chosen)) == (0, 1)
