"""Fixtures of all tests."""

import os
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rotation
from oracle import Oracle, is_available, oracle_for


@pytest.fixture(scope="session", autouse=True)
def reference_stays_outside() -> Iterator[None]:
    """No test imports `jax`, which would replace the operators of pellucid's arrays."""
    yield
    assert "jax" not in sys.modules


@pytest.fixture
def oracle() -> Oracle:
    """`jax` in a process of its own, with its default options."""
    return _oracle(x64=False)


@pytest.fixture
def oracle_x64() -> Oracle:
    """`jax` in a process of its own, with 64-bit dtypes."""
    return _oracle(x64=True)


@pytest.fixture
def oracle_8_devices() -> Oracle:
    """`jax` in a process of its own, with eight virtual devices."""
    return _oracle(devices=8)


def _oracle(*, x64: bool = False, devices: int = 1) -> Oracle:
    if not is_available():
        pytest.skip("needs a Python with jax")
    return oracle_for(x64=x64, devices=devices)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the part of this run once; processes of pytest-xdist inherit it."""
    part = rotation.part_of_run()
    os.environ[rotation.VARIABLE] = rotation.ALL if part is None else str(part)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(rotation.summary())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that asks the oracle; leave out the rotating tests of other parts."""
    for item in items:
        if any(name.startswith("oracle") for name in getattr(item, "fixturenames", ())):
            item.add_marker("oracle")
    rotation.deselect(config, items)
