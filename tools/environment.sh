#!/bin/sh
# Makes a virtual environment with pellucid installed editably, or brings it up to date.
#
#   tools/environment.sh [FOLDER [EXTRAS [VERSION...]]]     # default: .venv dev, any supported Python
#
# The folder holds a stamp with a digest of everything the installation depends on, so a second run
# changes nothing, takes a tenth of a second and needs no network.
set -eu
cd "$(dirname "$0")/.."

folder=${1:-.venv}
extras=${2:-dev}
[ $# -le 2 ] && set -- || shift 2

python=$folder/bin/python
if ! "$python" -c 'import sys, pip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    base=$(tools/find_python.sh "$@")
    echo "Making $folder with $("$base" --version)."
    "$base" -m venv --clear "$folder"
fi

# Sources are used in place; only what the installer reads or copies is part of the digest.
digest=$("$python" - "$extras" <<'END'
import hashlib, os, pathlib, sys

inputs = [*map(pathlib.Path, ("pyproject.toml", "hatch_build.py")), *pathlib.Path("kernel/spec").rglob("*")]
if not os.environ.get("PELLUCID_SKIP_LABEXTENSION"):
    extension = pathlib.Path("lab-extension")
    inputs += extension.glob("*.json")
    inputs += [path for folder in ("src", "style", "schema") for path in (extension / folder).rglob("*")]
digest = hashlib.sha256(f"{sys.version} {sys.argv[1]}".encode())
for path in sorted(path for path in inputs if path.is_file()):
    digest.update(f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
print(digest.hexdigest())
END
)
stamp=$folder/pellucid-installed
if [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then
    exit 0
fi
echo "Installing pellucid and what it needs into $folder (the first time this takes a minute or two)."
rm -f "$stamp"
"$python" -m pip install -qq --disable-pip-version-check --editable ".[$extras]"
echo "$digest" >"$stamp"
