#!/bin/sh
# neuronctl @VERSION@ in one file: find a Python, which unpacks neuronctl once into your cache.
case ${XDG_CACHE_HOME-} in
    /*) cache=$XDG_CACHE_HOME ;;
    *) cache=$HOME/.cache ;;
esac
place=$cache/neuronctl/zipapp/@NAME@-$(uname -m)
# shellcheck disable=SC3067  # dash and bash know it
if [ -O "$place" ] && { read -r python && read -r directory; } <"$place" && [ -x "$python" ] &&
    [ -f "$directory/start.py" ]; then
    exec "$python" -IS "$directory/start.py" "$@"
fi
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        exec "$python" -IS "$0" "$@"
    fi
done
echo 'neuronctl: needs Python 3.9 or newer, and found none in PATH' >&2
echo "  hint: load a module that has one (module avail python)" >&2
exit 1
