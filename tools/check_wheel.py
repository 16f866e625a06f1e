"""Builds a wheel, installs it alone into an empty folder, and imports it from there.

What an editable installation hides shows here: a package or a data file that the wheel forgot.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pellucid", "pellucid_kernel", "pellucid_viz", "pellucid_profiler")
DATA = ["share/jupyter/kernels/pellucid/kernel.json", "pellucid_start.pth", "pellucid_start.py"]
if not os.environ.get("PELLUCID_SKIP_LABEXTENSION"):
    DATA.append("share/jupyter/labextensions/@pellucid/lab/package.json")

IMPORT_ALL = """
import importlib, pathlib, sys
for name in sys.argv[2:]:
    found = pathlib.Path(importlib.import_module(name).__file__).resolve()
    if not found.is_relative_to(pathlib.Path(sys.argv[1]).resolve()):
        sys.exit(f"{name} was imported from {found}, not from the wheel.")
    if not (found.parent / "py.typed").exists():
        sys.exit(f"{name} has no py.typed in the wheel.")
"""


def pip(*arguments: str) -> None:
    """Run pip quietly."""
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True, cwd=ROOT)


def main() -> int:
    """Check the wheel; the exit status is 1 if something is missing in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
        [wheel] = folder.glob("pellucid-*.whl")
        site = folder / "site"
        pip("install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
        missing = [path for path in DATA if not (site / path).exists()]
        for path in missing:
            print(f"{wheel.name} lacks {path}.", file=sys.stderr)
        # The folder comes before everything installed, so only the dependencies come from there.
        imported = subprocess.run(
            [sys.executable, "-c", IMPORT_ALL, str(site), *PACKAGES],
            check=False,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(site)},
        )
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        return 1 if missing or imported.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
