#!/usr/bin/env bash
# Makes sure that the shells and man are there, which the tests of completions and man pages need:
# installs Debian's where that is allowed, else says how (those tests then fail, and say it too).
set -u
missing=()
for pair in zsh:zsh fish:fish less:less man:man-db groff:groff-base; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair##*:}")
done
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing ${missing[*]} (apt-get install), for the tests of completions and man pages …"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null && exit 0
fi
echo "The tests of completions and man pages need: sudo apt-get install ${missing[*]}" >&2
exit 0
