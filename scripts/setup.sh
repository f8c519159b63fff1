#!/usr/bin/env bash
# Installs what building and testing Thalweg needs on Debian 12 or Ubuntu 24.04, and only what is
# missing: a second run finds everything and does nothing. With --dev also what `make fuzz`,
# `make format`, `make tidy` and the sanitizer presets need. Uses sudo when not root.
set -euo pipefail

# command (or "-" for a library) and the package that brings it
needed=(
  "make make" "g++ g++" "cmake cmake" "ninja ninja-build" "pkg-config pkg-config"
  "- nlohmann-json3-dev" "- libfmt-dev" "- libspdlog-dev" "- libcli11-dev" "- libicu-dev"
  "- libpcre2-dev" "- libre2-dev" "- libgtest-dev" "- libssl-dev" "- libcurl4-openssl-dev" "- libopenmpi-dev" "mpirun openmpi-bin" "- libboost-dev"
  "python3 python3" "- python3-dev" "- python3-venv" "- pybind11-dev"
  "- json-schema-test-suite" "- libtest-json-schema-acceptance-perl" "- python3-jsonschema"
  "curl curl" "node nodejs" "npm npm" "promtool prometheus"
)
needed_dev=(
  "clang++-16 clang-16" "- libclang-rt-16-dev" "clang-format clang-format"
  "clang-tidy-16 clang-tidy-16" "ccache ccache"
)

# Tests of the chat page in a browser: left out where the distribution has no such package (Ubuntu has it as a snap).
wanted=("chromium chromium")

# What tests of the server have from npm: clients of other people, the driver of the browser. Where npm fails, CTest
# shows those tests as skipped.
install_packages() {
  local folder tests
  tests=$(dirname "$0")/../tests
  if ! command -v npm > /dev/null; then return; fi
  for folder in clients playground; do
    if [ -e "$tests/$folder/node_modules/.package-lock.json" ]; then continue; fi
    echo "setup: installing the packages of tests/$folder with npm"
    npm --prefix "$tests/$folder" ci --no-audit --no-fund --ignore-scripts --omit=dev < /dev/null \
      || echo "setup: npm failed; the tests of tests/$folder are left out" >&2
  done
}

case "${1:-}" in
  "") ;;
  --dev) needed+=("${needed_dev[@]}") ;;
  *)
    echo "usage: scripts/setup.sh [--dev]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup: this is no Debian or Ubuntu; CMake will say what is missing. Needed, by Debian name:"
  printf '  %s\n' "${needed[@]#* }"
  exit 0
fi

installed=" $(dpkg-query -W -f '${binary:Package}:${db:Status-Status}\n' \
  | sed -n 's/\(:[a-z0-9]*\)\?:installed$//p' | tr '\n' ' ')"
# The packages among the given entries that are not there yet.
missing_of() {
  local entry tool package
  for entry in "$@"; do
    tool=${entry%% *}
    package=${entry#* }
    if [ "$tool" != "-" ] && command -v "$tool" > /dev/null; then continue; fi
    case "$installed" in *" $package "*) continue ;; esac
    echo "$package"
  done
}
mapfile -t missing < <(missing_of "${needed[@]}")
mapfile -t optional < <(missing_of "${wanted[@]}")
if [ $((${#missing[@]} + ${#optional[@]})) -eq 0 ]; then
  install_packages
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: missing packages and no sudo. As root: apt-get install ${missing[*]} ${optional[*]}" >&2
    exit $((${#missing[@]} > 0))
  fi
  as_root=(sudo)
fi

echo "setup: installing with apt: ${missing[*]} ${optional[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
  -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
"${apt[@]}" update < /dev/null
if [ ${#missing[@]} -gt 0 ]; then
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" < /dev/null
fi
for package in "${optional[@]}"; do
  "${apt[@]}" install -y --no-install-recommends "$package" < /dev/null \
    || echo "setup: no package $package here; its tests are left out" >&2
done
install_packages
