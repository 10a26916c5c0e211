#!/bin/sh
# Runs the specs on each interpreter named, and the C specs of those with a C API of their
# own. The last line sums all up: N passed, N failed.
set -u
build=${COMPACTION_BUILD:-build}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0

count() { # count WHAT STATUS: reads the log's closing line, prints what failed
  line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
  p=${line%% *}
  f=$(echo "$line" | sed 's/.*, \([0-9]*\) failed/\1/')
  if [ -z "$line" ] || { [ "$2" != 0 ] && [ "$f" = 0 ]; }; then # died on the way
    p=${p:-0}
    f=$((${f:-0} + 1))
  fi
  [ "$f" = 0 ] || grep -avE '^[-+*]+$' "$log"
  printf '%-10s %s passed, %s failed\n' "$1" "$p" "$f"
  passed=$((passed + p))
  failed=$((failed + f))
}

preload= # the sanitizers' runtime must come first; interpreters do not free all at exit
if [ -n "${SANITIZED:-}" ]; then
  preload="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)"
  export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
fi

for lua in "$@"; do
  case ${lua##*/} in
  nvim)
    timeout 600 nvim --headless -u NONE -i NONE -n -c 'luafile spec/support/in_nvim.lua' \
      </dev/null >"$log" 2>&1
    ;;
  *)
    LD_PRELOAD=$preload "$lua" -e 'require "busted.runner" { standalone = false }' >"$log" 2>&1
    ;;
  esac
  count "$lua" $?
  case ${lua##*/} in luajit | nvim) continue ;; esac # the C specs of 5.1 are its own
  version=$("$lua" -e 'io.write(_VERSION:match "%d%.%d")')
  for program in "$build/$version"/*_spec; do
    [ -x "$program" ] || continue
    CMOCKA_MESSAGE_OUTPUT=TAP "$program" >"$log" 2>&1
    status=$?
    echo "$(grep -c '^ok' "$log") passed, $(grep -c '^not ok' "$log") failed" >>"$log"
    count "${program#"$build"/}" $status
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
