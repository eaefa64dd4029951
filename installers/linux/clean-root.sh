#!/bin/sh
# Runs a command in a root of its own: this system as it is, where every change goes to WORK/changes and nothing reaches the
# system itself. The same WORK given again finds the changes of before.
#
# usage: unshare --mount --propagation private sh clean-root.sh WORK [hide DIR | show FROM TO]... run COMMAND...
#
# hide makes a folder empty there. show gives a folder of this system another place there, to be read only.
set -eu
work=$1
root=$work/root
shift
mkdir -p "$work/changes" "$work/scratch" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/changes,workdir=$work/scratch" "$root"
for folder in /proc /sys /dev; do
    mount --rbind "$folder" "$root$folder"
done
mount -t tmpfs tmpfs "$root/tmp"
while true; do
    case $1 in
    hide)
        # What is not in this root at all is hidden already.
        if [ -d "$root$2" ]; then mount -t tmpfs tmpfs "$root$2"; fi
        shift 2
        ;;
    show)
        mkdir -p "$root$3"
        mount --bind "$2" "$root$3"
        mount -o remount,bind,ro "$root$3"
        shift 3
        ;;
    run)
        shift
        break
        ;;
    *)
        echo "clean-root.sh: $1 is none of hide, show and run" >&2
        exit 2
        ;;
    esac
done
exec chroot "$root" "$@"
