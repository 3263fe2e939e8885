#!/usr/bin/env bash
# Makes .venv-bench, the environment of the libraries that `make bench` measures itself against, from its lock.
# Without it the benchmark still runs and says which peers were missing.
#   TORCH=2.13.0   add this PyTorch (netcal needs it; on Linux the registry's build brings gigabytes of CUDA)
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH
stamp=.venv-bench/.installed-from
want=$({ cat requirements-bench.txt scripts/install_peers.sh; echo "${TORCH:-}"; } | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && .venv-bench/bin/python -c '' 2>/dev/null; then exit 0; fi
echo "slc-ops: installing $(grep -c '==' requirements-bench.txt) locked packages of the peers into .venv-bench"
rm -rf .venv-bench
.venv/bin/python -m venv .venv-bench
install() { .venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$@"; }
if ! install --require-hashes -r requirements-bench.txt; then
  echo "slc-ops: the peers could not be installed (see above); they will be reported as not measured" >&2
  exit 0
fi
if [ -n "${TORCH:-}" ]; then
  install "torch==$TORCH" || echo "slc-ops: PyTorch could not be installed; netcal will be reported as not measured" >&2
fi
printf '%s' "$want" > "$stamp"
