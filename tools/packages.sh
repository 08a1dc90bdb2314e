#!/usr/bin/env bash
# Makes sure that the programs are there which only the tests need: shells for the completions, man
# for the man pages, a KDC for Kerberos, a browser for the report, Prometheus for the exporter; with
# --all also npm, for the report's axe-core, and a compiler for the classes that Kafka's own tests
# meet. Installs Debian's where that is allowed, else says how; the tests that need them then fail,
# and say it too.
set -u
PATH=$PATH:/usr/sbin:/sbin
missing=()
more=
[ "${1:-}" = --all ] && more="npm:npm javac:openjdk-17-jdk-headless"
for pair in zsh:zsh fish:fish less:less man:man-db groff:groff-base openssl:openssl \
  krb5kdc:krb5-kdc kadmin.local:krb5-admin-server kinit:krb5-user krb5-config:libkrb5-dev \
  gcc:gcc chromium:chromium promtool:prometheus $more; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair##*:}")
done
python3 -c 'import os, sysconfig as s, sys; sys.exit(not os.path.exists(s.get_paths()["include"] + "/Python.h"))' || missing+=(python3-dev)
accessibility() {
  [ -z "$more" ] && return
  local place=${XDG_CACHE_HOME:-$HOME/.cache}/kgtool/axe
  [ -e "$place/node_modules/axe-core/axe.min.js" ] && return
  npm install --silent --no-save --no-package-lock --prefix "$place" axe-core@4 >/dev/null
}
[ ${#missing[@]} = 0 ] && { accessibility; exit 0; }
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing ${missing[*]} (apt-get install), which the tests use …"
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1  # install services, start none
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && { accessibility; exit 0; }
fi
echo "The tests need: sudo apt-get install ${missing[*]}, and then tools/packages.sh again" >&2
exit 0
