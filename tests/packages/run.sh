#!/usr/bin/env bash
# Real packages with a real past bug: source distributions from PyPI, a scripted fix, the packages' own tests in the sandbox.
# Needs the network. Takes the programs from FROGNANO_BOT (default: target/release/frognano-bot), frognano-tools beside it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
bot=$(realpath "${FROGNANO_BOT:-$top/target/release/frognano-bot}")

bash "$top/deploy/install-needs.sh" \
  "git=git=makes the repositories" \
  "bwrap=bubblewrap=makes the sandbox" \
  "python3=python3=runs the packages' tests"
# The module venv is there without ensurepip on Debian, which is why no program can be looked for.
python3 -c 'import ensurepip, venv' 2>/dev/null ||
  bash "$top/deploy/install-needs.sh" "no-ensurepip=python3-venv=keeps pytest apart from the machine's own Python"
for program in "$bot" "$(dirname "$bot")/frognano-tools"; do
  [ -x "$program" ] || { echo "missing: $program; build it with deploy/build.sh" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/sdists" "$work/tmp"
python3 -m venv "$work/venv"
"$work/venv/bin/python3" -m pip install --quiet --disable-pip-version-check pytest==8.4.2 setuptools==80.9.0 flit_core==3.12.0

prepare() { # FOLDER REPOSITORY: the package as a repository with one commit
  local requirement sha256 pin="$2.requirement"
  { read -r requirement; read -r sha256; } < <(python3 "$here/check.py" pin "$1/expect.json")
  echo "$requirement --hash=sha256:$sha256" >"$pin"
  "$work/venv/bin/python3" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --no-binary "${requirement%%==*}" --require-hashes --requirement "$pin" --dest "$2.sdist"
  mkdir "$2"
  tar -xzf "$2".sdist/*.tar.gz -C "$2" --strip-components=1 --no-same-owner
  git -C "$2" -c init.defaultBranch=main init --quiet
  if [ -f "$1/setup.patch" ]; then git -C "$2" apply "$1/setup.patch"; fi
  git -C "$2" add --all --force
  git -C "$2" -c user.name=Maintainers -c user.email=maintainers@example.org -c commit.gpgSign=false commit --quiet --message "$requirement"
}

passed=0 failed=0
for folder in "$here"/*/; do
  folder=${folder%/}
  name=$(basename "$folder")
  repo="$work/sdists/$name" out="$work/$name-out"
  [ -f "$folder/expect.json" ] || continue
  # Not as a condition: bash would go on after a step that failed.
  set +e
  (set -e; prepare "$folder" "$repo") >"$work/$name.log" 2>&1
  prepared=$?
  set -e
  if [ "$prepared" -ne 0 ]; then
    echo "$name: FAILED: the repository could not be made: $(tail -n 3 "$work/$name.log" | tr '\n' ' ')"
    failed=$((failed + 1))
    continue
  fi
  test=()
  while IFS= read -r command; do test=(--test "$command"); done < <(python3 "$here/check.py" test "$folder/expect.json")
  status=0
  env PATH="$work/venv/bin:$PATH" VIRTUAL_ENV="$work/venv" TMPDIR="$work/tmp" \
    "$bot" fix --repo "$repo" --issue "$folder/issue.md" --script "$folder/script.jsonl" ${test[@]+"${test[@]}"} --out "$out" --json \
    >"$work/$name.json" 2>"$work/$name.log" || status=$?
  if python3 "$here/check.py" verdict "$folder/expect.json" "$status" "$work/$name.json" "$out" "$repo" "$work"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    sed 's/^/    /' "$work/$name.log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
