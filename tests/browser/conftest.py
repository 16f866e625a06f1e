"""One JupyterLab server and one Chromium for each process of browser tests; a page for all their tests but those that fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

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


class Pages:
    """A page of a browser, in a context of its own, until it is dropped; then another one."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.open: Page | None = None

    def page(self) -> Page:
        """The page, of the size that tests begin with."""
        if self.open is None:
            self.open = self.browser.new_context().new_page()
        self.open.set_viewport_size({"width": 1280, "height": 800})
        return self.open

    def drop(self) -> None:
        """Close the page."""
        if self.open is not None:
            self.open.context.close()
            self.open = None


@pytest.fixture(scope="session")
def pages(browser: Browser) -> Iterator[Pages]:
    """The page that tests have one after the other: loading JupyterLab takes longer than most of them."""
    pages = Pages(browser)
    yield pages
    pages.drop()


@pytest.fixture
def lab(server: Server, pages: Pages, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab as one finds it first; what it looked like is kept when the test fails."""
    OUTPUT.mkdir(exist_ok=True)
    lab = Lab(pages.page(), server, OUTPUT)
    failed_before = request.session.testsfailed
    yield lab
    failed = request.session.testsfailed > failed_before
    if failed:
        lab.screenshot(f"failed_{request.node.name}")
    if failed or lab.complaints or not lab.can_be_cleared():
        pages.drop()
    else:
        lab.clear()
    lab.shut_down_kernels()
    assert lab.complaints == []
