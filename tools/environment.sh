#!/bin/sh
# Makes a virtual environment with pellucid installed editably, or brings it up to date.
#
#   tools/environment.sh [FOLDER [EXTRAS [VERSION...]]]     # default: .venv dev, any supported Python
#
# The folder holds a stamp with a digest of everything the installation depends on, so a second run
# changes nothing, takes a tenth of a second and needs no network. An environment for development stays one
# where that for the lab is asked for. `tests/tools/test_environment.py` has the rest.
set -eu
cd "$(dirname "$0")/.."

folder=${1:-.venv}
extras=${2:-dev}
[ $# -le 2 ] && set -- || shift 2

python=$folder/bin/python
stamp=$folder/pellucid-installed
kept=$folder/pellucid-extras
[ "$extras" != lab ] || [ "$(cat "$kept" 2>/dev/null)" != dev ] || extras=dev
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
if [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then
    exit 0
fi
case $extras in
lab) expected="about a minute" ;;
*) expected="some minutes" ;;
esac
echo "Installing pellucid and what it needs into $folder (the first time this takes $expected)."
rm -f "$stamp" "$kept"

progress() { # what pip does now, in one line of a terminal; its warnings and errors go their own way
    count=0
    while read -r line; do
        case $line in
        Collecting*) count=$((count + 1)) && shown="$count packages found: ${line#Collecting }" ;;
        Downloading* | Installing* | Building* | Preparing* | Getting*) shown=$line ;;
        *) continue ;;
        esac
        printf '\r\033[K  %.70s' "$shown"
    done
    printf '\r\033[K'
}

install() {
    "$python" -m pip install --disable-pip-version-check --progress-bar off "$@" --editable ".[$extras]"
}

begun=$(date +%s)
if [ -t 1 ]; then
    # A pipe ends with the status of its last command, so pip's own is what leaves the stamp.
    { install && echo "$digest" >"$stamp"; } | progress
else
    install -qq && echo "$digest" >"$stamp"
fi
[ -e "$stamp" ] || exit 1
echo "$extras" >"$kept"
echo "Installed in $(($(date +%s) - begun)) s."
