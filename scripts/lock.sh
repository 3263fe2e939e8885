#!/usr/bin/env bash
# Writes requirements.txt: one universal lock with hashes, from pyproject.toml; and requirements-bench.txt, the same
# for the peers of `make bench`, which live in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
export UV_PYTHON_DOWNLOADS=never
uv=${UV:-$(command -v uv || true)}
if [ -z "$uv" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  "${PYTHON:-python3}" -m venv "$scratch"
  "$scratch/bin/pip" install --quiet uv
  uv=$scratch/bin/uv
fi
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --extra production --extra dev pyproject.toml --output-file requirements.txt "$@"
echo "slc-ops: requirements.txt holds $(grep -c '==' requirements.txt) pinned packages"
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --override benchmarks/peers-left-out.txt benchmarks/peers.in --output-file requirements-bench.txt "$@"
echo "slc-ops: requirements-bench.txt holds $(grep -c '==' requirements-bench.txt) pinned packages"
