#!/usr/bin/env bash
# Adds the extra `study` (PyTorch for CPU, 700 MB on disk) to a .venv that is ready.
# pip, not uv: uv does not read pip's settings, which may name a folder with the build for CPU (decision 0103).
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1
fail() { printf 'slc-ops: %s\n' "$*" >&2; exit 2; }

[ -f .venv/.installed-from ] || fail ".venv is not ready for the extra study; run scripts/install.sh first"
have=.venv/.study-installed-from
want=$(cksum < requirements-study.txt)
if [ -f "$have" ] && [ "$(cat "$have")" = "$want" ]; then exit 0; fi
rm -f "$have"
echo "slc-ops: installing PyTorch for CPU into .venv (190 MB; a minute where it has to be fetched)"
# PyPI has builds for CPU for macOS and Windows; pip's own settings say where those for Linux are.
.venv/bin/python -m pip install --no-deps --require-hashes -r requirements-study.txt \
  || fail "PyTorch could not be installed (see above): let pip find a build for CPU (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS, see pytorch.org), or install one yourself (pip install torch==2.13.0), then run the command again"
.venv/bin/python -c 'import torch' || fail "PyTorch was installed and cannot be imported (see above)"
printf '%s' "$want" > "$have"
echo "slc-ops: the extra study is ready"
