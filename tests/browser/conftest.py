"""One JupyterLab server and one Chromium for all browser tests; a fresh page for each."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.lab import Lab, Server

OUTPUT = Path(__file__).parent / "output"
START_SECONDS = 90
# A dialog that asks to fetch news covers the page; nothing here may go to the network.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-5000:]}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a folder and settings of its own."""
    home = tmp_path_factory.mktemp("jupyter")
    folders = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
    }
    for name, value in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    root = home / "notebooks"
    root.mkdir()
    port, token, log = free_port(), secrets.token_hex(16), home / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"),
                f"--IdentityProvider.token={token}",
                f"--ServerApp.root_dir={root}",
                "--LabApp.expose_app_in_browser=True",
            ],
            env=os.environ | {name: str(path) for name, path in folders.items()},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_up(f"http://127.0.0.1:{port}/api?token={token}", process, log)
        yield Server(url=f"http://127.0.0.1:{port}", token=token, root=root)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    executable = os.environ.get("PELLUCID_CHROMIUM")
    if executable is None:
        script = Path(__file__).parents[2] / "tools" / "chromium.sh"
        found = subprocess.run([script], check=False, capture_output=True, text=True)
        if found.returncode != 0:
            pytest.fail(found.stderr)
        executable = found.stdout.strip()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable,
            # Containers lack the privileges for the sandbox and have a small /dev/shm.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
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
