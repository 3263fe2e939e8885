#!/usr/bin/env bash
# The quick tests in the versions of the lock on every other Python that we allow and that is here, each in an
# environment of its own (.venv-3.12, …). Needs uv, which finds interpreters; those that are not here are named.
# Arguments go to pytest; PYTHONS="3.13" tries that one alone.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH
export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
uv=${UV:-$(command -v uv || true)}
[ -n "$uv" ] || { echo "slc-ops: make pythons needs uv, which finds interpreters; install it first" >&2; exit 2; }
for version in ${PYTHONS:-3.12 3.13}; do
  found=$("$uv" python find --no-project "$version" 2>/dev/null) || found=
  if [ -z "$found" ]; then
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      if [ -x "$candidate" ]; then found=$candidate; fi
    done
  fi
  if [ -z "$found" ]; then
    echo "slc-ops: no Python $version here: not tried"
    continue
  fi
  echo "slc-ops: the quick tests on $("$found" --version) in .venv-$version"
  "$uv" venv --quiet --clear --python "$found" ".venv-$version"
  "$uv" pip install --quiet --python ".venv-$version/bin/python" --no-deps --require-hashes -r requirements.txt
  "$uv" pip install --quiet --python ".venv-$version/bin/python" --no-deps --no-build-isolation --editable .
  ".venv-$version/bin/python" -m pytest -n "${WORKERS:-2}" --dist loadfile --durations 10 -m "not slow and not services and not chaos" "$@"
done
