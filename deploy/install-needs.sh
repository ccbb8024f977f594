#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing of: PROGRAM=PACKAGE=REASON ...
# Says what and why; uses sudo when it is not root; does nothing when nothing is missing.
set -euo pipefail

missing=()
for need in "$@"; do
  IFS='=' read -r program package reason <<<"$need"
  command -v "$program" >/dev/null 2>&1 && continue
  echo "missing: $program ($reason); installing the package $package"
  missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

command -v apt-get >/dev/null 2>&1 || { echo "this is no Debian or Ubuntu: install ${missing[*]} yourself" >&2; exit 1; }
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "neither root nor sudo: install ${missing[*]} yourself" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
