#!/usr/bin/env bash
# Makes sure that there is a Java 17 or newer: installs Debian's where that is allowed, else says how.
set -u
java=java
[ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ] && java=$JAVA_HOME/bin/java
major() { "$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1; }
if [ "$(major || true)" -ge 17 ] 2>/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Java 17 (apt-get install openjdk-17-jre-headless) …"
  apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null && exit 0
fi
echo "kgtool's Kafka and Spark need Java 17 or newer, and none was found in JAVA_HOME or on the PATH." >&2
echo "Install it, for example: sudo apt-get install openjdk-17-jre-headless" >&2
exit 1
