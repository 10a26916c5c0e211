#!/bin/sh
# What a make target needs: need.sh build|demo|test|bench|lint [interpreter]
# Nothing missing: silent. As root on Debian: installs it. Else: prints the one command that
# does, and fails.
set -u
target=$1
lua=${2:-lua5.4}

missing=
need() { # need PACKAGE COMMAND...: the package is missed where the command fails
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}
headers() { pkg-config --exists "$1"; }
json() { "$1" -e 'if not pcall(require, "cjson") then require "dkjson" end'; }
busted() { "$1" -e 'require "busted.runner"'; }
cmocka() { echo '#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>' | cc -E -; }
asan_runtime() { test -f "$(cc -print-file-name=libasan.so)"; }

need_compiler() {
  need build-essential cc --version
  need pkg-config pkg-config --version
}
need_lua() { # interpreter and headers
  case $1 in
  luajit) need luajit luajit -v; need liblua5.1-0-dev headers lua5.1 ;;
  nvim) need neovim nvim --version; need liblua5.1-0-dev headers lua5.1; need lua5.1 lua5.1 -v ;;
  lua5.1) need lua5.1 lua5.1 -v; need liblua5.1-0-dev headers lua5.1 ;;
  *) need "$1" "$1" -v; need "lib$1-dev" headers "$1" ;;
  esac
}

need_compiler
case $target in
demo)
  need_lua "$lua"
  need lua-cjson json "$lua"
  ;;
test | lint)
  for each in lua5.1 lua5.2 lua5.3 lua5.4 luajit nvim; do need_lua $each; done
  for each in lua5.1 lua5.2 lua5.3 lua5.4 luajit; do
    need lua-busted busted $each
    need lua-cjson $each -e 'require "cjson"'
    need lua-dkjson $each -e 'require "dkjson"'
  done
  need libcmocka-dev cmocka
  need libc6-dev asan_runtime
  ;;
bench)
  need_lua lua5.4
  need_lua luajit
  need lua5.1 lua5.1 -v
  ;;
esac
if [ "$target" = lint ]; then
  need lua-check luacheck --version
  need clang-format clang-format --version
  need cppcheck cppcheck --version
fi

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
