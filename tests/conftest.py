"""Fixtures of all tests."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compilation
import recorded
import rotation
from oracle import Oracle, is_available, oracle_for
from recorded import RecordedOracle

BROWSER = Path(__file__).parent / "browser"


@pytest.fixture(scope="session", autouse=True)
def reference_stays_outside() -> Iterator[None]:
    """No test imports `jax`, which would replace the operators of pellucid's arrays."""
    yield
    assert "jax" not in sys.modules


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """`jax` in a process of its own, with its default options."""
    return RecordedOracle(oracle_for(x64=False), request.config.option.references)


@pytest.fixture
def oracle_x64(request: pytest.FixtureRequest) -> Oracle:
    """`jax` in a process of its own, with 64-bit dtypes."""
    return RecordedOracle(oracle_for(x64=True), request.config.option.references)


@pytest.fixture
def oracle_8_devices(request: pytest.FixtureRequest) -> Oracle:
    """`jax` in a process of its own, with eight virtual devices."""
    return RecordedOracle(oracle_for(devices=8), request.config.option.references)


@pytest.fixture
def live_oracle() -> Oracle:
    """`jax` in a process of its own, with its default options, asked whatever is recorded."""
    if not is_available():
        pytest.skip("needs a Python with jax")
    return oracle_for()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How answers of the oracle are recorded: not at all, where missing, or also dropping unused ones."""
    parser.addoption("--references", choices=recorded.MODES, default="read")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """After `--references=renew`, drop the answers that no test asked for."""
    if session.config.option.references == "renew" and exitstatus == 0:
        recorded.drop_unused()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the part of this run once, and how XLA compiles; processes that it starts inherit both.

    The reference's answers are recorded from programs that are compiled as users' are.
    """
    if config.option.references == "renew" and (
        config.option.keyword or any("::" in each for each in config.args)
    ):
        raise pytest.UsageError("--references=renew drops what no test asks for: give whole files")
    part = rotation.part_of_run()
    os.environ.pop("PELLUCID_AS_JAX", None)  # processes of the reference run jax itself
    os.environ[rotation.VARIABLE] = rotation.ALL if part is None else str(part)
    if config.option.references == "read" and "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = compilation.QUICK
    if os.environ.get("XLA_FLAGS") == compilation.QUICK:  # set by the process that starts workers
        config.pluginmanager.register(compilation.Compilation(), compilation.NAME)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the browser's tests out where they don't run: what they import takes nine seconds."""
    return True if collection_path == BROWSER and "not (" in config.option.markexpr else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(rotation.summary())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that asks the oracle; leave out the rotating tests of other parts."""
    for item in items:
        if any(name.startswith("oracle") for name in getattr(item, "fixturenames", ())):
            item.add_marker("oracle")
    rotation.deselect(config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector of garbage from what is imported and collected: 0.3 s of each collection, and of leak checks."""
    gc.collect()
    gc.freeze()
