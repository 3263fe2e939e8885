#!/usr/bin/env bash
# Build the site into var/site, and change nothing else; a dead link, anchor or docstring reference fails.
set -euo pipefail
cd "$(dirname "$0")/.."
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
echo "The site is in var/site/index.html"
