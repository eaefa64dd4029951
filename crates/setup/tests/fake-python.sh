#!/bin/sh
# Stands in for a Python in the tests of set-up: says the version that stands in the file `python-version` beside
# the name it was started by; has no pip.
if [ "$1" = "-c" ]; then
    cat "$(dirname "$0")/python-version"
    exit 0
fi
echo "No module named pip" >&2
exit 1
