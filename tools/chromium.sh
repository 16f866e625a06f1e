#!/bin/sh
# Prints the path of a Chromium that browser tests can drive; installs Debian's where it may.
#
# $PELLUCID_CHROMIUM, if set, is taken as it is.
set -eu

find_browser() {
    for name in "${PELLUCID_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        [ -n "$name" ] && command -v "$name" && return
    done
    return 1
}

find_browser && exit
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "Installing chromium." >&2
    {
        apt-get update --quiet --quiet
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends \
            chromium fonts-dejavu-core
    } >&2
    find_browser && exit
fi
echo "No Chromium was found, and it can't be installed here (that needs apt-get and root)." >&2
echo "Install one, or name it: PELLUCID_CHROMIUM=/path/to/chromium" >&2
exit 1
