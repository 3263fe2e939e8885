#!/usr/bin/env bash
# Draw the concepts' figures and build the site into var/site; a dead link, anchor or docstring reference fails.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python scripts/docs_pages.py
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet
echo "The site is in var/site/index.html"
