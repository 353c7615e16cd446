#!/bin/sh
# Set-up of the tests that open a report in a real browser (`make browser`, part of `make test`).
# Installs Chromium where that is allowed; where it is not, it only tells, and those tests are skipped.
packages="chromium chromium-driver"

found() { command -v chromium >/dev/null && command -v chromedriver >/dev/null; }

# A mirror that does not answer must not hold up all tests.
apt() {
    DEBIAN_FRONTEND=noninteractive timeout 150 apt-get -qq \
        -o DPkg::Lock::Timeout=120 -o Acquire::http::Timeout=15 -o Acquire::Retries=1 "$@"
}
install() { apt install -y --no-install-recommends $packages >/dev/null 2>&1; }

if found; then
    echo "browser: $(command -v chromium)"
elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "browser: none, and only root with apt-get can install one here; its tests are skipped"
else
    echo "browser: none; installing it with: apt-get install $packages"
    install || { apt update >/dev/null 2>&1; install; }
    if found; then
        echo "browser: $(command -v chromium)"
    else
        echo "browser: it could not be installed; its tests are skipped"
    fi
fi
exit 0
