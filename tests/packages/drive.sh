#!/bin/bash
# Drives the installed package under a real systemd, inside a box that is thrown away afterwards. /mnt/test holds the
# package, as cuzk.deb, and the circom fixture. Each step says what it expects; the first that fails ends the test.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
cd /mnt/test

trap 'echo "FAILED in line $LINENO: $BASH_COMMAND" >&2; systemctl status --no-pager cuzk.service cuzk.socket >&2 || true;
      journalctl --sync; journalctl --no-pager -u cuzk.service -n 40 >&2' ERR

step() { echo "-- $*"; }
is() { [ "$1" = "$2" ] || { echo "expected $2, found $1" >&2; return 1; }; }
show() { systemctl show --value -p "$1" cuzk.service; }
journal() { journalctl --sync; journalctl --no-pager -o cat _SYSTEMD_UNIT=cuzk.service; }
# A proof through the service, verified.
prove() {
    local out
    out=$(mktemp -d)
    cuzk prove merkle --witness merkle.wtns --out "$out/proof" --public "$out/public.json" >/dev/null
    cuzk verify --vk merkle.zkey --proof "$out/proof" --public "$out/public.json" | grep -q verified
}
# Waits until a command succeeds.
until_true() {
    for _ in $(seq 200); do "$@" && return 0; sleep 0.05; done
    echo "not within 10 seconds: $*" >&2
    return 1
}
fails() { ! "$@"; }

step "installed: user, folders, the socket and nothing else runs"
dpkg -i cuzk.deb >/dev/null
getent passwd cuzk >/dev/null
is "$(systemctl is-enabled cuzk.socket)" enabled
is "$(systemctl is-active cuzk.socket)" active
is "$(systemctl is-active cuzk.service || true)" inactive
is "$(stat -c '%a %U %G' /run/cuzk/cuzk.sock)" "660 root cuzk"
is "$(stat -c '%a %U %G' /var/lib/cuzk)" "750 cuzk cuzk"
cuzk-daemon --check-config | grep -qx OK

step "the first client starts the daemon, and has its proof"
mkdir /srv/keys
cp merkle.zkey /srv/keys
cuzk circuit add merkle --key /srv/keys/merkle.zkey >/dev/null
prove
is "$(systemctl is-active cuzk.service)" active
is "$(ps -o user= -p "$(show MainPID)")" cuzk
show StatusText | grep -q ready

step "the socket is for the group"
useradd --groups cuzk prover
useradd outsider
runuser -u prover -- cuzk status >/dev/null
fails runuser -u outsider -- cuzk status 2>/dev/null

step "start returns when circuits are loaded; stop ends with 0, and the socket stays"
systemctl stop cuzk.service
is "$(show Result) $(show ExecMainStatus)" "success 0"
is "$(systemctl is-active cuzk.socket)" active
systemctl start cuzk.service
cuzk circuits --json | grep -q '"merkle"'
show StatusText | grep -q ready
prove

step "a reload takes a new circuit"
pid=$(show MainPID)
cuzk circuit add again --key /srv/keys/merkle.zkey >/dev/null
systemctl reload cuzk.service
until_true sh -c 'cuzk circuits | grep -q again'
is "$(show MainPID)" "$pid"

step "a reload with a bad configuration keeps the old one and says why"
mkdir -p /etc/cuzk/cuzk.toml.d
echo 'stop_timeout = 5' >/etc/cuzk/cuzk.toml.d/50-bad.toml
systemctl reload cuzk.service || true
until_true sh -c 'systemctl show --value -p StatusText cuzk.service | grep -q stop_timeout'
journal | grep -q '50-bad.toml'
is "$(show MainPID)" "$pid"
prove

step "started with it, the daemon ends with 78 and is not started again"
systemctl restart cuzk.service && false
until_true test "$(systemctl is-active cuzk.service || true)" = failed
is "$(show ExecMainStatus)" 78
sleep 2
is "$(systemctl is-active cuzk.service || true)" failed
rm /etc/cuzk/cuzk.toml.d/50-bad.toml
systemctl reset-failed cuzk.service cuzk.socket
systemctl start cuzk.socket cuzk.service
prove

step "one that is killed is started again, and clients are served"
pid=$(show MainPID)
kill -KILL "$pid"
until_true sh -c "[ \"\$(systemctl show --value -p MainPID cuzk.service)\" != $pid ] && systemctl -q is-active cuzk.service"
prove
is "$(show NRestarts)" 1

step "one that hangs is killed by the watchdog and started again"
mkdir -p /run/systemd/system/cuzk.service.d
printf '[Service]\nWatchdogSec=2s\n' >/run/systemd/system/cuzk.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart cuzk.service
pid=$(show MainPID)
kill -STOP "$pid"
until_true sh -c "[ \"\$(systemctl show --value -p NRestarts cuzk.service)\" = 1 ]"
until_true systemctl -q is-active cuzk.service
prove
rm -r /run/systemd/system/cuzk.service.d
systemctl daemon-reload

step "a proof passes where the devices are closed"
mkdir -p /etc/systemd/system/cuzk.service.d
cp /usr/share/doc/cuzk/examples/cpu-only.conf /etc/systemd/system/cuzk.service.d/
systemctl daemon-reload
systemctl restart cuzk.service
prove
systemd-analyze security --threshold=20 cuzk.service >/dev/null
rm -r /etc/systemd/system/cuzk.service.d
systemctl daemon-reload
systemctl restart cuzk.service

step "an upgrade replaces the daemon behind the socket, and keeps the configuration"
pid=$(show MainPID)
echo '# mine' >>/etc/cuzk/cuzk.toml
dpkg --force-confold -i cuzk.deb >/dev/null
fails is "$(show MainPID)" "$pid" 2>/dev/null
grep -q '# mine' /etc/cuzk/cuzk.toml
prove

step "removed: nothing runs, the configuration stays"
dpkg -r cuzk >/dev/null
fails systemctl -q is-active cuzk.service
fails systemctl -q is-active cuzk.socket
test -e /etc/cuzk/cuzk.toml

step "purged: the operator's own files stay"
dpkg -P cuzk >/dev/null
test ! -e /etc/cuzk/cuzk.toml
test ! -e /var/lib/cuzk
test -e /etc/cuzk/circuits/merkle.toml
echo "all as expected"
