#!/bin/sh
# Chromium and its driver from Debian's packages, where this may be done; exit code 3 where it may not.
command -v chromium >/dev/null && command -v chromedriver >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Chromium is not installed, and only root can install it with apt-get: the page was NOT tested in a browser." >&2
  echo "what to do: apt-get install chromium chromium-driver, then make test-browser." >&2
  exit 3
fi
echo "installing chromium and chromium-driver from Debian's packages"
apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null
