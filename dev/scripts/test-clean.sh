#!/bin/bash
# Tries the README's two commands as a stranger would: in a new Debian, from a clone, with what the commands themselves install.
#
#   dev/scripts/test-clean.sh DEBIAN RUST [QEMU]
#       DEBIAN   12 or 13
#       RUST     none, debian (its cargo is there before), or rustup (this machine's is copied, the toolchain is fetched)
#       QEMU     backports: Debian's newer one is there before; otherwise the commands install Debian's
#
# Root runs both, so they can install. All packages are there afterwards that were there before; then a user who is not root runs
# `make run` again, which installs nothing. It needs root, debootstrap and the network, and takes about half an hour on two CPUs. The root
# is target/clean.
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh

die() {
    echo "test-clean: $*" >&2
    exit 1
}
case ${1-} in
12) suite=bookworm ;;
13) suite=trixie ;;
*) die "Debian 12 or 13; --help says more" ;;
esac
rust=${2-}
case $rust in none | debian | rustup) ;; *) die "Rust: none, debian or rustup" ;; esac
case ${3-} in '' | backports) ;; *) die "QEMU: backports or nothing" ;; esac
[[ $(id -u) = 0 ]] || die "debootstrap needs root"
command -v debootstrap >/dev/null || die "install debootstrap"
mirror=${LINMAP_DEBIAN:-http://deb.debian.org/debian}

# Mounts end with this process.
[[ ${LINMAP_CLEAN-} ]] || LINMAP_CLEAN=yes exec unshare --mount --propagation private "$0" "$@"
root=${CARGO_TARGET_DIR:-$PWD/target}/clean
trap 'echo "test-clean: FAILED at line $LINENO; see $root.log" >&2' ERR
rm -rf "$root"
mkdir -p "$root"
echo "test-clean: installing Debian $1"
debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
    die "no Debian; see $root.log"
cat >"$root/etc/apt/sources.list" <<EOF
deb $mirror $suite main
deb $mirror $suite-updates main
deb $mirror $suite-backports main
deb ${mirror%/*}/debian-security $suite-security main
EOF
# Archives can be behind a proxy whose certificate this machine knows.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

# inside USER COMMAND...: runs a command line there.
inside() {
    local user=$1
    shift
    chroot "$root" env -i HOME="$([[ $user = root ]] && echo /root || echo "/home/$user")" TERM=dumb LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        su "$user" -c "$*"
}
# shellcheck disable=SC2016 # dpkg expands these
packages() { chroot "$root" dpkg-query -W -f '${Package} ${Status}\n' | sed -n 's/ install ok installed//p' | sort; }

inside root "apt-get update -q && useradd -m dev" >>"$root.log" 2>&1
case $rust in
debian) inside root "apt-get install -y -q --no-install-recommends cargo" >>"$root.log" 2>&1 ;;
rustup)
    command -v rustup >/dev/null || die "this machine has no rustup to copy"
    cp "$(command -v rustup)" "$root/usr/local/bin/rustup-init"
    inside dev "rustup-init -y -q --profile minimal" >>"$root.log" 2>&1
    # Root has it as well.
    inside root "rustup-init -y -q --profile minimal" >>"$root.log" 2>&1
    ;;
esac
[[ -z ${3-} ]] || inside root "apt-get install -y -q --no-install-recommends -t $suite-backports qemu-system-arm" >>"$root.log" 2>&1
git clone -q . "$root/home/dev/linmap"
packages >"$root.before"

# step WHO COMMAND: runs a command in the clone and says how long it took.
step() {
    local start=$SECONDS
    if inside "$1" "cd /home/dev/linmap && $2" >>"$root.log" 2>&1; then
        echo "test-clean: $2, by $1: ok, $((SECONDS - start)) s"
    else
        tail -n 25 "$root.log"
        die "$2, by $1, has failed; see $root.log"
    fi
}
step root "make run"
# The plugin for a QEMU from 11.1 on; that for 10 is built with the tests.
[[ -z ${3-} ]] || step root "make judge"
step root "make test"
packages >"$root.after"
removed=$(comm -23 "$root.before" "$root.after")
[[ -z $removed ]] || die "removed: $removed"
chroot "$root" chown -R dev: /home/dev/linmap
step dev "make run"
packages | cmp -s - "$root.after" || die "the second run has installed something"
echo "test-clean: Debian $*: $(inside root "qemu-system-aarch64 --version" | head -n 1); $(comm -13 "$root.before" "$root.after" | wc -l) packages installed, none removed"
