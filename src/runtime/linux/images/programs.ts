/**
 * Small programs of our own in the default image: `dnf` and `yum` for scripts that were written for Fedora and its
 * relatives, and `uv`, which fetches itself when it is first called.
 */

import type { ImageConventions } from "../../../core/model/conventions.ts";

export interface OwnProgram {
  path: string;
  text: string;
  /** a program that the image must have for this one to be useful */
  needs?: "dpkg";
}

/** packages whose names differ between Fedora and Debian; any other "-devel" package is lib…-dev */
const debianNames: Record<string, string> = {
  "alsa-lib": "libasound2",
  "at-spi2-atk": "libatk-bridge2.0-0",
  "at-spi2-core": "libatspi2.0-0",
  atk: "libatk1.0-0",
  "bind-utils": "bind9-dnsutils",
  cairo: "libcairo2",
  "cups-libs": "libcups2",
  "dbus-libs": "libdbus-1-3",
  "diffutils-devel": "diffutils",
  "expat-devel": "libexpat1-dev",
  "ffmpeg-free": "ffmpeg",
  "gcc-c++": "g++",
  "glib2-devel": "libglib2.0-dev",
  "glibc-devel": "libc6-dev",
  gnupg2: "gnupg",
  gtk3: "libgtk-3-0",
  httpd: "apache2",
  iputils: "iputils-ping",
  "java-17-amazon-corretto-headless": "openjdk-17-jre-headless",
  "java-17-amazon-corretto": "openjdk-17-jdk",
  "java-21-amazon-corretto-headless": "openjdk-21-jre-headless",
  "java-21-amazon-corretto": "openjdk-21-jdk",
  "libcurl-devel": "libcurl4-openssl-dev",
  libdrm: "libdrm2",
  "libffi-devel": "libffi-dev",
  "libjpeg-turbo-devel": "libjpeg-dev",
  "libpq-devel": "libpq-dev",
  libX11: "libx11-6",
  libXScrnSaver: "libxss1",
  libXcomposite: "libxcomposite1",
  libXcursor: "libxcursor1",
  libXdamage: "libxdamage1",
  libXext: "libxext6",
  libXfixes: "libxfixes3",
  libXi: "libxi6",
  libXrandr: "libxrandr2",
  libXrender: "libxrender1",
  libXtst: "libxtst6",
  libxcb: "libxcb1",
  libxkbcommon: "libxkbcommon0",
  "libxml2-devel": "libxml2-dev",
  "libxslt-devel": "libxslt1-dev",
  "mesa-libEGL": "libegl1",
  "mesa-libGL": "libgl1",
  "mesa-libgbm": "libgbm1",
  "ncurses-devel": "libncurses-dev",
  "nmap-ncat": "ncat",
  nspr: "libnspr4",
  nss: "libnss3",
  "openssh-clients": "openssh-client",
  "openssl-devel": "libssl-dev",
  pango: "libpango-1.0-0",
  "perl-core": "perl",
  "postgresql-devel": "libpq-dev",
  "procps-ng": "procps",
  "python3-devel": "python3-dev",
  "readline-devel": "libreadline-dev",
  "redhat-lsb-core": "lsb-release",
  "shadow-utils": "passwd",
  "sqlite-devel": "libsqlite3-dev",
  sqlite: "sqlite3",
  "util-linux-user": "util-linux",
  "vim-enhanced": "vim",
  "vim-minimal": "vim-tiny",
  which: "debianutils",
  "xorg-x11-server-Xvfb": "xvfb",
  xz: "xz-utils",
  "zlib-devel": "zlib1g-dev",
};

const dnf = `#!/bin/sh
# Packages come from apt here. This does what dnf and yum are mostly called for, with apt, and translates the names of
# packages that Debian calls differently. Whatever else is asked for is refused with a sentence.
self=\${0##*/}

refuse() {
  echo "$self: $1" >&2
  exit 1
}

named() {
  case $1 in
${Object.entries(debianNames)
  .map(([fedora, debian]) => `    ${fedora}) echo ${debian} ;;`)
  .join("\n")}
    @development-tools | @Development* | "Development Tools") echo build-essential ;;
    lib*-devel) echo "\${1%-devel}-dev" ;;
    *-devel) echo "lib\${1%-devel}-dev" ;;
    *.rpm) refuse "Cannot install \\"$1\\": this image takes Debian's packages (.deb), not Fedora's" ;;
    *) echo "$1" ;;
  esac
}

verb= yes= packages=
for word in "$@"; do
  case $word in
    -y | --assumeyes) yes=-y ;;
    -h | --help) verb=help ;;
    --version) verb=version ;;
    # How it is said and where from: apt knows its own ways.
    -q | --quiet | -v | --verbose | --allowerasing | --nogpgcheck | --best | --nobest | --refresh | --skip-broken) ;;
    --setopt=* | --enablerepo=* | --disablerepo=* | --releasever=*) ;;
    -*) refuse "Cannot do \\"$word\\": $self is a small shim onto apt here; use apt-get" ;;
    *) if [ -z "$verb" ]; then verb=$word; else package=$(named "$word") || exit 1; packages="$packages $package"; fi ;;
  esac
done

fresh() {
  ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || apt-get update || exit 1
}

root() {
  [ "$(id -u)" -eq 0 ] || refuse "This command has to be run with superuser privileges (under the root user on most systems)."
}

# Words of dnf are single words of apt, so splitting is what is wanted.
# shellcheck disable=SC2086
case $verb in
  install | localinstall | reinstall | groupinstall)
    root
    [ -n "$packages" ] || refuse "Cannot install: name a package"
    fresh
    again=
    [ "$verb" != reinstall ] || again=--reinstall
    DEBIAN_FRONTEND=noninteractive exec apt-get install $yes $again -- $packages ;;
  remove | erase) root; exec apt-get remove $yes -- $packages ;;
  autoremove) root; exec apt-get autoremove $yes -- $packages ;;
  update | upgrade)
    root
    apt-get update || exit 1
    if [ -n "$packages" ]; then DEBIAN_FRONTEND=noninteractive exec apt-get install --only-upgrade $yes -- $packages; fi
    DEBIAN_FRONTEND=noninteractive exec apt-get upgrade $yes ;;
  makecache | check-update) root; exec apt-get update ;;
  clean) root; exec apt-get clean ;;
  search) exec apt-cache search -- $packages ;;
  info) exec apt-cache show -- $packages ;;
  list) exec apt list --installed ;;
  # Scripts ask for it to find out whether there is a dnf.
  version) printf '4.14.0\\n  a shim onto %s\\n' "$(apt-get --version | head -n 1)" ;;
  "" | help) echo "Usage: $self [-y] install|remove|autoremove|update|upgrade|makecache|clean|search|info|list [package...]" ;;
  *) refuse "Cannot do \\"$verb\\": $self is a small shim onto apt here; use apt-get" ;;
esac
`;

/** pip replaces it with the real one */
const uv = `#!/bin/sh
# uv comes from PyPI: fetched when it is first called, and from then on it is itself.
program=/usr/local/bin/\${0##*/}
if said=$(/usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore uv 2>&1); then
  exec "$program" "$@"
fi
echo "\${0##*/}: Cannot fetch uv from PyPI: \${said##*
}" >&2
echo "hint: allow pypi.org and files.pythonhosted.org in the network policy, or install uv in an image of your own" >&2
exit 127
`;

export function ownPrograms({ folder }: ImageConventions): OwnProgram[] {
  return [
    { path: `${folder}/bin/dnf`, text: dnf, needs: "dpkg" },
    { path: `${folder}/bin/yum`, text: dnf, needs: "dpkg" },
    { path: "/usr/local/bin/uv", text: uv },
    { path: "/usr/local/bin/uvx", text: uv },
  ];
}
