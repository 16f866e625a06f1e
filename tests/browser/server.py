"""A Jupyter server of its own for browser tests and measurements."""

import contextlib
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 90
# A dialog that asks to fetch news covers the page; nothing here may go to the network.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# Containers lack the privileges for the sandbox and have a small /dev/shm.
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


@dataclass(frozen=True, slots=True)
class Server:
    """A running Jupyter server."""

    url: str
    token: str
    root: Path
    """Folder that holds its notebooks."""

    def request(self, method: str, path: str) -> Any:
        """Answer of the server's REST interface, decoded; None if it is empty."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else None


@contextlib.contextmanager
def running_server(home: Path, application: str = "jupyterlab") -> Iterator[Server]:
    """JupyterLab, or the application "notebook", on a folder and settings of its own."""
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
                *(sys.executable, "-m", application, "--no-browser", "--allow-root"),
                *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"),
                f"--IdentityProvider.token={token}",
                f"--ServerApp.root_dir={root}",
                "--LabApp.expose_app_in_browser=True",
                "--JupyterNotebookApp.expose_app_in_browser=True",
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


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until `url` answers; RuntimeError with the server's log where it never does."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"Jupyter did not start:\n{log.read_text()[-5000:]}")


def chromium_path() -> str:
    """The system's Chromium; RuntimeError where there is none."""
    executable = os.environ.get("PELLUCID_CHROMIUM")
    if executable is not None:
        return executable
    script = Path(__file__).parents[2] / "tools" / "chromium.sh"
    process = subprocess.run([script], check=False, capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(process.stderr)
    return process.stdout.strip()
