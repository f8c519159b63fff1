#!/usr/bin/env bash
# check_aarch64.sh [build folder]: cross-compiles base, tensor, kernels and the tests of kernels for
# AArch64 and runs these under emulation. pinned_bits_test holds the results to the bits that x86-64
# gives. Needs, on an x86-64 Debian or Ubuntu: g++-aarch64-linux-gnu, qemu-user, and what
# scripts/setup.sh installs (fmt, spdlog and nlohmann-json serve as headers alone, GoogleTest is
# compiled from /usr/src/googletest). Some minutes the first time; only what changed afterwards.
# FILTER is handed to GoogleTest, CXX_AARCH64 and JOBS choose the compiler and how many run at once.
set -euo pipefail

cd "$(dirname "$0")/.."
build=${1:-build-aarch64}
cxx=${CXX_AARCH64:-aarch64-linux-gnu-g++}
rules=$build/rules.mk

need() {  # command or file, package
  if ! command -v "$1" > /dev/null && [ ! -e "$1" ]; then
    echo "check_aarch64: $1 is missing: apt-get install $2" >&2
    exit 1
  fi
}
need make make
need "$cxx" g++-aarch64-linux-gnu
need qemu-aarch64 qemu-user
need /usr/include/fmt/format.h libfmt-dev
need /usr/include/spdlog/spdlog.h libspdlog-dev
need /usr/include/nlohmann/json.hpp nlohmann-json3-dev
need /usr/src/googletest/googletest/src/gtest-all.cc libgtest-dev

# The host's own include folder must not be searched: its C library is another one.
mkdir -p "$build/include" "$build/objects"
for library in fmt spdlog nlohmann; do ln -sfn "/usr/include/$library" "$build/include/$library"; done

list() {
  find src/base src/tensor src/kernels/reference src/kernels/cpu/generic -name '*.cc' \
    ! -name '*_test.cc' ! -name '*_fuzz.cc'
  find src/kernels src/kernels/cpu -maxdepth 1 -name '*.cc'
  echo /usr/src/googletest/googletest/src/gtest-all.cc
  echo /usr/src/googletest/googletest/src/gtest_main.cc
}

flags="-std=c++20 -O3 -ffp-contract=off -fno-math-errno -DTHALWEG_CHECKS=1 -DFMT_HEADER_ONLY
  -DSPDLOG_FMT_EXTERNAL -Isrc -isystem $build/include"
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-restrict -Werror"
gtest="-isystem /usr/src/googletest/googletest/include -isystem /usr/src/googletest/googletest"
{
  echo "test: $build/kernels_test"
  objects=
  while read -r source; do
    object=$build/objects/$(echo "${source#src/}" | tr / _).o
    objects+=" $object"
    own=$warnings
    case "$source" in
      /usr/src/*) own= ;;
      *test*.cc) own+=" -O1" ;;
    esac
    printf '%s: %s %s\n\t%s\n' "$object" "$source" "$rules" \
      "$cxx $(echo $flags $own $gtest) -MMD -MP -c $source -o $object"
  done < <(list | sort)
  printf '%s:%s\n\t%s\n' "$build/kernels_test" "$objects" "$cxx $objects -o $build/kernels_test"
  echo "-include $build/objects/*.d"
} > "$rules.new"
# Everything depends on the rules, so that new flags compile anew; the same rules stay as old as they are.
if cmp -s "$rules.new" "$rules"; then rm "$rules.new"; else mv "$rules.new" "$rules"; fi

make --no-print-directory -f "$rules" -j "${JOBS:-$(nproc)}" test > "$build/log"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/kernels_test" --gtest_brief=1 --gtest_filter="${FILTER:-*}"
