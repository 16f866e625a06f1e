"""One JupyterLab server and one Chromium for each process of browser tests; a fresh page for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.lab import Lab
from tests.browser.server import CHROMIUM_ARGUMENTS, Server, chromium_path, running_server

OUTPUT = Path(__file__).parent / "output"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a folder and settings of its own."""
    with running_server(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def lab(server: Server, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab in a page of its own; what it looked like is kept when the test fails."""
    OUTPUT.mkdir(exist_ok=True)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    lab = Lab(page, server, OUTPUT)
    failed_before = request.session.testsfailed
    yield lab
    if request.session.testsfailed > failed_before:
        lab.screenshot(f"failed_{request.node.name}")
    lab.shut_down_kernels()
    context.close()
    assert lab.complaints == []
