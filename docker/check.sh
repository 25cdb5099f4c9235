#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the steps of docker/Dockerfile without a container engine: in a fresh Debian 12 below a folder, as root, with
# debootstrap.   Usage: docker/check.sh [FOLDER [WHEELS]], build/chroot by default and replaced. With WHEELS, a folder of
# script/wheel, these are taken and nothing is compiled there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root="$(realpath -m "${1:-build/chroot}")"
wheels="${2:+$(realpath "$2")}"
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "check: this needs root and debootstrap" >&2
  exit 77
fi
trap 'umount "$root/proc" 2>/dev/null || true' EXIT
rm -rf --one-file-system "$root"
debootstrap --variant=minbase bookworm "$root" >&2
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/"
for name in pip.conf; do if [[ -e "/etc/$name" ]]; then cp "/etc/$name" "$root/etc/"; fi; done
git archive --format=tar HEAD | (mkdir -p "$root/src" && tar -x -C "$root/src")
inside() { chroot "$root" env -i PATH=/opt/tenon/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
  PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"; }
inside apt-get update -q >&2
inside apt-get install -y -q --no-install-recommends ca-certificates git python3 python3-pip python3-venv >&2
# A proxy here may have a certificate of its own, which pip takes by name.
authorities=/etc/ssl/certs/ca-certificates.crt
if [[ -e "$authorities" ]]; then cp "$authorities" "$root$authorities"; fi
if [[ -n "$wheels" ]]; then
  mkdir -p "$root/wheels" && cp "$wheels"/tenon-*-cp311-*.whl "$root/wheels/"
else
  inside bash -c 'cd /src && script/setup --no-python && script/wheel /wheels 11' >&2
fi
inside bash -c 'python3 -m venv /opt/tenon && useradd --create-home tenon' >&2
inside bash -c '/opt/tenon/bin/pip install --no-cache-dir /wheels/tenon-*-cp311-*.whl' >&2
inside su tenon -s /bin/bash -c 'cd && PATH=/opt/tenon/bin:$PATH && tenon --version && tenon detect /src/samples/detector.onnx \
  --source /src/samples/images/00000.jpg --budget 0 -q && python3 -c "import tenon; print(tenon.devices().keys())"'
