#!/usr/bin/env bash
# Makes .venv from the lock. Costs nothing when it is already right; repairs it when it is not.
#   UV=path/to/uv     use this uv (default: the one on PATH; without one, pip)
#   PYTHON=python3.12 use this interpreter
#   install.sh spark  adds the extra `spark` (PySpark, 450 MB) to a .venv that is ready
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH
export UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1 UV_LINK_MODE=${UV_LINK_MODE:-copy}

fail() { printf 'slc-ops: %s\n' "$*" >&2; exit 2; }

suitable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.12 python3.13 python3.11 python}; do
    if suitable "$candidate"; then "$candidate" -c 'import sys; print(sys.executable)'; return; fi
  done
  fail "no Python 3.11, 3.12 or 3.13 with venv found${PYTHON:+ at PYTHON=$PYTHON}; install one (Debian: apt-get install python3 python3-venv) or name it: make run PYTHON=/path/to/python3.12"
}

# PySpark is a source package: what builds it comes from the same lock, and is installed before it.
add_spark() {
  local have=.venv/.spark-installed-from want_spark uv
  want_spark=$(cksum < requirements-spark.txt)
  if [ -f "$have" ] && [ "$(cat "$have")" = "$want_spark" ]; then return; fi
  rm -f "$have"
  uv=${UV:-$(command -v uv || true)}
  echo "slc-ops: installing PySpark into .venv (450 MB; a few minutes where it has to be fetched)"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  awk '/^[^ ]/ { keep = /^setuptools==/ } keep' requirements-spark.txt > "$scratch/builder.txt"
  for lock in "$scratch/builder.txt" requirements-spark.txt; do
    if [ -n "$uv" ]; then
      "$uv" pip install --python .venv/bin/python --no-build-isolation --no-deps --require-hashes -r "$lock"
    else
      .venv/bin/python -m pip install --no-build-isolation --no-deps --require-hashes -r "$lock"
    fi || fail "PySpark could not be installed (see above): check that a package index can be reached, then run the same command again"
  done
  printf '%s' "$want_spark" > "$have"
  echo "slc-ops: the extra spark is ready"
}

stamp=.venv/.installed-from
want=$({ cat requirements.txt scripts/install.sh; sed '/^\[tool\./,$d' pyproject.toml; } | cksum)  # settings of tools do not matter
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want@$PWD" ] && [ -x .venv/bin/slc-ops ] && .venv/bin/python -c '' 2>/dev/null; then
  [ "${1:-}" = spark ] || exit 0
  add_spark
  exit 0
fi

[ "${1:-}" != spark ] || fail ".venv is not ready for the extra spark; run scripts/install.sh first"

python=$(find_python)
if [ -e .venv ] && { [ ! -f "$stamp" ] || ! .venv/bin/python -c '' 2>/dev/null || ! grep -q "@$PWD\$" "$stamp"; }; then
  echo "slc-ops: .venv is unfinished, broken or moved; rebuilding it"
  rm -rf .venv
fi
rm -f "$stamp"

uv=${UV:-$(command -v uv || true)}
if [ -n "$uv" ]; then
  echo "slc-ops: installing $(grep -c '==' requirements.txt) locked packages into .venv with uv (under a minute)"
  [ -e .venv ] || "$uv" venv --quiet --python "$python" .venv
  install() { "$uv" pip install --python .venv/bin/python "$@"; }
  compile=--compile-bytecode
else
  echo "slc-ops: installing $(grep -c '==' requirements.txt) locked packages into .venv with pip (two to four minutes; uv would take one)"
  [ -e .venv ] || "$python" -m venv .venv
  install() { .venv/bin/python -m pip install "$@"; }
  compile=
fi
# The lock is complete, so nothing is left to resolve: --no-deps is faster, and old pips refuse extras otherwise.
install $compile --no-deps --require-hashes -r requirements.txt \
  || fail "the packages could not be installed (see above): check that a package index can be reached, then run the same command again"
install --no-deps --no-build-isolation --editable . \
  || fail "slc_ops itself could not be installed into .venv (see above)"
printf '%s' "$want@$PWD" > "$stamp"
echo "slc-ops: .venv is ready"
