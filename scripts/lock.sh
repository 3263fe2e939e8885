#!/usr/bin/env bash
# Writes requirements.txt: one universal lock with hashes, from pyproject.toml; requirements-spark.txt, what the extra
# `spark` needs beside it, in versions that agree; and requirements-bench.txt, the same for the peers of `make bench`,
# which live in an environment of their own (requirements-study.txt is kept by hand, decision 0103); and tests/release/plain-airflow.txt, what Airflow installs without us.
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
compile() {
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate "$@"
}
compile --extra all --extra dev pyproject.toml --output-file requirements.txt "$@"
# The second lock: resolved together with the first, then without what the first already has.
compile --extra all --extra dev --extra spark pyproject.toml --constraint requirements.txt \
  | awk 'NR == FNR { if (/^[^ ]/) known[$1] = 1; next } /^[^ ]/ { keep = !($1 in known) } keep' requirements.txt - \
  > requirements-spark.txt
echo "slc-ops: requirements-spark.txt holds $(grep -c '==' requirements-spark.txt) more for the extra spark"
echo "slc-ops: requirements.txt holds $(grep -c '==' requirements.txt) pinned packages"
compile --override benchmarks/peers-left-out.txt benchmarks/peers.in --output-file requirements-bench.txt "$@"
echo "slc-ops: requirements-bench.txt holds $(grep -c '==' requirements-bench.txt) pinned packages"
grep -o '^apache-airflow==[^ ;]*' requirements.txt | "$uv" pip compile --quiet --universal --python-version 3.11 \
  --no-header --no-annotate --output-file tests/release/plain-airflow.txt "$@" -
echo "slc-ops: tests/release/plain-airflow.txt holds $(grep -c '==' tests/release/plain-airflow.txt) pinned packages"
