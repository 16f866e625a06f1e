#!/bin/sh
# Prints the interpreter to build an environment with: the first that works of the wanted versions.
#
#   tools/find_python.sh              # 3.11, else 3.12, else 3.13
#   tools/find_python.sh 3.13 3.12    # 3.13, else 3.12
#
# $PELLUCID_PYTHON, if set, is the only candidate. Without arguments the oldest supported version comes
# first: it is the one that every test runs on, so two machines that both have it behave alike.
set -eu

works() { # INTERPRETER VERSION: does it start, is it that version, and can it make environments?
    "$1" -c '
import sys, ensurepip, venv
sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])
' "$2" >/dev/null 2>&1
}

try() { # INTERPRETER VERSION: print its full path and end if it works
    if works "$1" "$2"; then
        "$1" -c 'import sys; print(sys.executable)'
        exit 0
    fi
}

[ $# -gt 0 ] || set -- 3.11 3.12 3.13

for version in "$@"; do
    if [ -n "${PELLUCID_PYTHON:-}" ]; then
        try "$PELLUCID_PYTHON" "$version"
        continue
    fi
    try "python$version" "$version"
    for installed in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python \
        "$HOME/.local/share/uv/python/cpython-$version".*/bin/python \
        "/opt/homebrew/bin/python$version" "/usr/local/bin/python$version" "/usr/bin/python$version"; do
        try "$installed" "$version"
    done
    try python3 "$version"
done

echo "No usable Python of version $(echo "$*" | sed 's/ /, /g') was found." >&2
echo "Install one with its venv module (Debian and Ubuntu: apt-get install python3-venv), or name it:" >&2
echo "    PELLUCID_PYTHON=/path/to/python3.11 make lab" >&2
exit 1
