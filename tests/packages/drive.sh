#!/bin/bash
# Drives an installed package under a real systemd, inside a box that is thrown away afterwards.
#
#   drive.sh deb|rpm
#
# /mnt/test holds the packages, as cuzk.deb and cuzk.rpm, and the circom fixture. Each step says what it expects; the
# first that fails ends the test.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
kind=$1
cd /mnt/test

case $kind in
    deb)
        install_it() { dpkg -i cuzk.deb; }
        upgrade_it() { dpkg --force-confold -i cuzk.deb; }
        remove_it() { dpkg -r cuzk; }
        ;;
    rpm)
        # The box has no database of what the RPM requires.
        install_it() { rpm -i --nodeps cuzk.rpm; }
        upgrade_it() { rpm -U --replacepkgs --nodeps cuzk.rpm; }
        remove_it() { rpm -e cuzk; }
        ;;
esac

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
install_it >/dev/null
# As the presets or Debian's policy say; a preset may leave it to the operator.
[ "$kind" = deb ] || systemctl -q enable --now cuzk.socket
getent passwd cuzk >/dev/null
is "$(systemctl is-enabled cuzk.socket)" enabled
is "$(systemctl is-active cuzk.socket)" active
is "$(systemctl is-active cuzk.service || true)" inactive
# On a systemd that has it, reloads are waited for.
version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
is "$(show Type)" "$([ "$version" -ge 253 ] && echo notify-reload || echo notify)"
is "$(show FileDescriptorStoreMax)" 4096
[ "$version" -lt 254 ] || is "$(show FileDescriptorStorePreserve)" yes
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

systemd-analyze security --threshold=20 cuzk.service >/dev/null

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
if [ "$(show Type)" = notify-reload ]; then
    # The command has waited.
    cuzk circuits | grep -q again
else
    until_true sh -c 'cuzk circuits | grep -q again'
fi
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
until_true systemctl -q is-failed cuzk.service
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
rm /etc/systemd/system/cuzk.service.d/cpu-only.conf
systemctl daemon-reload
systemctl restart cuzk.service

step "HTTP is answered on a loopback address once the unit lets it"
echo 'http = "127.0.0.1:9464"' >/etc/cuzk/cuzk.toml.d/http.toml
fails systemctl restart cuzk.service 2>/dev/null
cp /usr/share/doc/cuzk/examples/http.conf /etc/systemd/system/cuzk.service.d/
systemctl daemon-reload
systemctl restart cuzk.service
exec 3<>/dev/tcp/127.0.0.1/9464
printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
grep -q '200 OK' <&3
exec 3>&-
rm /etc/cuzk/cuzk.toml.d/http.toml /etc/systemd/system/cuzk.service.d/http.conf
systemctl daemon-reload
systemctl restart cuzk.service

step "an upgrade replaces the daemon behind the socket, and keeps the configuration"
pid=$(show MainPID)
echo '# mine' >>/etc/cuzk/cuzk.toml
upgrade_it >/dev/null
fails is "$(show MainPID)" "$pid" 2>/dev/null
grep -q '# mine' /etc/cuzk/cuzk.toml
prove

step "removed: nothing runs, the configuration stays"
remove_it >/dev/null
fails systemctl -q is-active cuzk.service
fails systemctl -q is-active cuzk.socket
fails test -e /usr/bin/cuzk-daemon
test -e /etc/cuzk/circuits/merkle.toml
if [ "$kind" = deb ]; then
    grep -q '# mine' /etc/cuzk/cuzk.toml
    # Nothing dangles.
    test ! -e /etc/systemd/system/cuzk.service.d
    step "purged: the operator's own files stay"
    dpkg -P cuzk >/dev/null
    test ! -e /etc/cuzk/cuzk.toml
    test ! -e /var/lib/cuzk
    test -e /etc/cuzk/circuits/merkle.toml
else
    grep -q '# mine' /etc/cuzk/cuzk.toml.rpmsave
fi
test ! -e /etc/systemd/system/cuzk.service.d
echo "all as expected"
