#!/usr/bin/env bash
# Installs the programs that the tests need and that are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

bash deploy/install-needs.sh \
  "git=git=the tests clone and push for real" \
  "bwrap=bubblewrap=the tests run the real sandbox" \
  "python3=python3=the tests run real Python test suites" \
  "pg_createcluster=postgresql=the stories of the database run on a PostgreSQL of their own too" \
  "cc=build-essential=links the programs"
# What a real browser sees of the pages is told only where one can be had.
bash deploy/install-needs.sh "chromium=chromium=a real browser looks at the pages" "node=nodejs=drives that browser" "npm=npm=installs what drives it" ||
  echo "no browser can be had: nothing will be told of the pages in a real one"
# The module venv is there without ensurepip on Debian, which is why no program can be looked for.
/usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null ||
  bash deploy/install-needs.sh "no-ensurepip=python3-venv=keeps pytest apart from the machine's own Python"
