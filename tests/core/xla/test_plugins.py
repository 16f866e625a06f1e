"""Which platforms are started, in what order, and what is said when one can't be.

The plugins here are fakes; loading a real one is a test for machines that have it.
"""

import logging
import pathlib

import pytest

import pellucid  # noqa: F401
from pellucid._machine.base.config import config
from pellucid._machine.base.errors import DeviceError, DistributedError, PlatformError
from pellucid._machine.runtime import platforms
from pellucid._machine.xla import plugins
from pellucid._machine.xla.client import JaxRuntimeError, make_cpu_client


class Fakes:
    """Plugins that are 'installed', and the order in which platforms were started."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.started = []
        self.makers = {"cpu": self.maker("cpu")}
        monkeypatch.setattr(platforms, "_makers", self.makers)
        monkeypatch.setattr(platforms, "_ALIASES", dict(platforms._ALIASES))
        for name in ("_clients", "_failures"):
            monkeypatch.setattr(platforms, name, {})
        for name in ("_default", "_first"):
            monkeypatch.setattr(platforms, name, [])
        self.installed(cuda=False, tpu=False)

    def maker(self, name, error=None):
        def make():
            self.started.append(name)
            if error is not None:
                raise error
            return make_cpu_client(1)

        return make

    def installed(self, *, cuda, tpu):
        plugin = plugins.CudaPlugin("13", pathlib.Path("xla_cuda_plugin.so"))
        self.monkeypatch.setattr(plugins, "cuda_plugin", lambda: plugin if cuda else None)
        self.monkeypatch.setattr(plugins, "tpu_library", lambda: pathlib.Path("x") if tpu else None)


@pytest.fixture
def fakes(monkeypatch):
    return Fakes(monkeypatch)


@pytest.fixture
def chosen():
    """Set the option `platforms` for one test."""

    def choose(text):
        config.update("platforms", text)

    yield choose
    config.update("platforms", None)


NO_GPU = JaxRuntimeError("FAILED_PRECONDITION: No visible GPU devices.")


def test_without_plugins_the_cpu_is_started(fakes):
    assert platforms.default_backend() == "cpu"
    assert fakes.started == ["cpu"]


def test_the_best_platform_is_the_default_and_the_cpu_is_there_too(fakes):
    fakes.makers |= {"cuda": fakes.maker("cuda"), "tpu": fakes.maker("tpu")}
    fakes.installed(cuda=True, tpu=True)
    assert platforms.default_platform() == "tpu"
    assert fakes.started == ["tpu", "cuda", "cpu"]
    assert platforms.client("gpu") is platforms.client("cuda")


def test_a_plugin_that_fails_is_passed_over_with_a_warning(fakes, caplog):
    fakes.makers["cuda"] = fakes.maker("cuda", NO_GPU)
    fakes.installed(cuda=True, tpu=False)
    with caplog.at_level(logging.WARNING, "pellucid"):
        assert platforms.default_backend() == "cpu"
    assert "a plugin for cuda is installed but could not be started" in caplog.text
    assert "No visible GPU devices" in caplog.text
    with pytest.raises(PlatformError, match="cuda: FAILED_PRECONDITION: No visible GPU devices"):
        platforms.devices("gpu")


def test_a_platform_that_was_asked_for_must_start(fakes, chosen):
    fakes.makers["cuda"] = fakes.maker("cuda", NO_GPU)
    fakes.installed(cuda=True, tpu=False)
    chosen("gpu,cpu")
    for _ in range(2):
        with pytest.raises(PlatformError) as caught:
            platforms.devices()
        assert str(caught.value).splitlines() == [
            "platform 'gpu' could not be started.",
            "  cuda: FAILED_PRECONDITION: No visible GPU devices.",
            "  rocm: no plugin for rocm is installed",
            "  Set the option `platforms` to one that can, for example 'cpu'.",
        ]
    chosen("cpu")
    assert platforms.default_backend() == "cpu"


def test_only_what_was_asked_for_is_started(fakes, chosen):
    fakes.makers["cuda"] = fakes.maker("cuda")
    fakes.installed(cuda=True, tpu=False)
    chosen("cuda")
    assert platforms.default_backend() == "gpu"
    assert fakes.started == ["cuda"]


def test_an_unknown_platform_is_refused(fakes, chosen):
    chosen("warp")
    with pytest.raises(PlatformError, match="there is no platform 'warp'"):
        platforms.devices()


def test_a_registered_platform_comes_before_the_cpu(fakes):
    platforms.register_platform("toy", fakes.maker("toy"))
    assert platforms.default_platform() == "toy"
    assert fakes.started == ["toy", "cpu"]


def test_plugins_named_in_the_environment_are_platforms(fakes, monkeypatch, tmp_path):
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", f"toy:{tmp_path / 'missing.so'}")
    assert plugins.named_plugins()["toy"].library == tmp_path / "missing.so"
    assert platforms.default_backend() == "cpu"
    with pytest.raises(PlatformError, match="toy: "):
        platforms.devices("toy")


def test_missing_plugins_say_what_to_install(monkeypatch):
    monkeypatch.setattr(plugins, "cuda_plugin", lambda: None)
    monkeypatch.setattr(plugins, "tpu_library", lambda: None)
    with pytest.raises(plugins.PluginMissingError, match="pip install 'jax-cuda13-plugin"):
        plugins.make_cuda_client()
    with pytest.raises(plugins.PluginMissingError, match="pip install libtpu"):
        plugins.make_tpu_client()


def test_plugins_are_found_among_a_wheel_s_files(monkeypatch, tmp_path):
    library = tmp_path / "jax_plugins" / "xla_cuda13" / "xla_cuda_plugin.so"
    library.parent.mkdir(parents=True)
    info = tmp_path / "jax_cuda13_pjrt-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-cuda13-pjrt\nVersion: 0.0\n")
    (info / "RECORD").write_text("jax_plugins/xla_cuda13/xla_cuda_plugin.so,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.cuda_plugin() is None  # the file is listed, but isn't there
    library.touch()
    assert plugins.cuda_plugin() == plugins.CudaPlugin("13", library)


def test_the_gpu_s_memory_is_shared_out_by_known_variables(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    assert plugins._memory_options() == {
        "allocator": "platform", "memory_fraction": 0.5, "preallocate": False
    }  # fmt: skip


def test_no_other_process_can_be_joined_once_devices_are_used():
    platforms.devices()
    with pytest.raises(DistributedError, match="before anything that touches a device"):
        platforms.check_none_started("initialize")


def test_devices_by_process():
    assert platforms.local_devices() == platforms.local_devices(0)
    assert (platforms.process_count(), platforms.process_index()) == (1, 0)
    assert platforms.device_count() == platforms.local_device_count() == len(platforms.devices())
    with pytest.raises(DeviceError, match="there is no process 3"):
        platforms.local_devices(3)
