#!/usr/bin/env bash
# Writes .env with a fresh random secret for every one that docker-compose.yaml demands; never touches an old one.
#   scripts/make_env.sh [FILE]     default: .env
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-.env}

fail() { printf 'slc-ops: %s\n' "$*" >&2; exit 2; }
demanded() { grep -o '\${[A-Z0-9_]*:?' docker-compose.yaml | tr -d '${:?' | sort -u; }
secret() {
  case $1 in
    *FERNET_KEY) head -c 32 /dev/urandom | base64 | tr '+/' '-_' ;;   # what Fernet wants
    *) head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; echo ;;
  esac
}

if [ -e "$file" ]; then
  missing=$(demanded | while read -r name; do grep -q "^$name=." "$file" || echo "$name"; done | xargs)
  [ -z "$missing" ] || fail "$file exists and was left alone, but lacks: $missing. Add a line NAME=secret for each (openssl rand -hex 32)"
  echo "slc-ops: $file exists and was left alone"
  exit 0
fi

umask 077
scratch=$(mktemp "$(dirname "$file")/.env.XXXXXX")
trap 'rm -f "$scratch"' EXIT
{
  echo "# Secrets of this installation. Keep them out of version control; docs/runbooks.md says how to rotate them."
  demanded | while read -r name; do printf '%s=%s\n' "$name" "$(secret "$name")"; done
} > "$scratch"
ln "$scratch" "$file" 2>/dev/null || fail "$file appeared meanwhile; it was left alone"   # fails where one exists
echo "slc-ops: $file holds $(grep -c = "$file") fresh secrets, readable by you only"
