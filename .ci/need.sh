#!/bin/sh
# What a make target needs: need.sh demo|test|bench|fuzz|lint [interpreter...]
# Nothing missing: silent. As root on Debian: installs it. Else: prints the one command that
# does, and fails.
set -u
target=$1
shift
[ $# -gt 0 ] || set -- lua5.4

missing=
need() { # need PACKAGE COMMAND...: the package is missed where the command fails
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}
headers() { pkg-config --exists "$1"; }
json() { "$1" -e 'if not pcall(require, "cjson") then require "dkjson" end'; }
loads() { "$1" -e "require '$2'"; }
cmocka() { printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' | cc -E -; }
asan_runtime() { test -f "$(cc -print-file-name=libasan.so)"; }
fuzzer() { echo 'int LLVMFuzzerTestOneInput(void){return 0;}' | clang -fsanitize=fuzzer -x c - -o /dev/null; }

need_compiler() {
  need build-essential cc --version
  need pkg-config pkg-config --version
}
need_lua() { # an interpreter, and the headers of its version
  name=${1##*/}
  case $name in
  luajit) need luajit "$1" -v; need liblua5.1-0-dev headers lua5.1 ;;
  nvim) need neovim "$1" --version; need liblua5.1-0-dev headers lua5.1 ;;
  lua5.1) need lua5.1 "$1" -v; need liblua5.1-0-dev headers lua5.1 ;;
  *) need "$name" "$1" -v; need "lib$name-dev" headers "$name" ;;
  esac
}
need_specs() { # what the specs load; Neovim finds what LuaJIT does
  [ "${1##*/}" != nvim ] || set -- luajit
  need_lua "$1"
  need lua-busted loads "$1" busted.runner
  need lua-cjson loads "$1" cjson
  need lua-dkjson loads "$1" dkjson
}

need_compiler
case $target in
demo)
  need_lua "$1"
  need lua-cjson json "$1"
  ;;
test)
  for lua in "$@"; do need_lua "$lua"; need_specs "$lua"; done
  need libcmocka-dev cmocka
  need libc6-dev asan_runtime
  ;;
bench)
  need_lua lua5.4
  need_lua luajit
  ;;
fuzz)
  need clang clang --version
  need libclang-rt-14-dev fuzzer
  ;;
lint)
  need_lua lua5.4
  need lua-check luacheck --version
  need clang-format clang-format --version
  need cppcheck cppcheck --version
  ;;
esac

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
[ -n "${missing% }" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing: $missing"
  apt-get update -qq || exit 1
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || exit 1
elif command -v apt-get >/dev/null 2>&1; then
  echo "make $target needs more than is installed here. This installs it:"
  echo "  sudo apt-get install -y --no-install-recommends $missing"
  exit 1
else
  echo "make $target needs what Debian calls: $missing"
  exit 1
fi
