#!/usr/bin/env bash
# The quick tests on the oldest direct versions that pyproject.toml allows: lower bounds are tested, not claimed.
# Needs uv (pip cannot resolve downwards). PYTHON=python3.12 uses that interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
uv=${UV:-$(command -v uv || true)}
[ -n "$uv" ] || { echo "slc-ops: make lowest needs uv, which resolves to the oldest versions; install it first" >&2; exit 2; }
"$uv" venv --quiet --clear --python "${PYTHON:-python3.11}" .venv-lowest
resolved=$(mktemp)
trap 'rm -f "$resolved"' EXIT
"$uv" pip compile --quiet --python .venv-lowest/bin/python --resolution lowest-direct --extra all pyproject.toml > "$resolved"
# Test tools are not part of the check: the newest compatible versions are used. Python compiles imported modules.
"$uv" pip install --quiet --python .venv-lowest/bin/python --constraint "$resolved" --editable ".[all,dev]"
.venv-lowest/bin/python -m pytest -n "${WORKERS:-2}" --dist loadfile --durations 10 -m "not slow and not services and not chaos" "$@"
