/** The /etc files of the host's image that we write ourselves. Nothing here is read from the host's own. */

import type { ImageConventions } from "../../../core/model/conventions.ts";
import { groupFile, passwdFile, plainUsers, shadowFile, sudoersFile } from "./users.ts";

/** A file of /etc: its text, and its mode if that is not 0644. */
export interface EtcFile {
  text: string;
  mode?: number;
  /** group, where it is not root's */
  gid?: number;
}

/** raise this when the content of these files changes, so that images are built again */
export const etcVersion = 2;

/** the address of the sandbox's own resolver; guest/network/net.h has the same address */
export const nameserver = "198.18.0.1";
export const hostname = "sandbox";

export const hostsFile = `127.0.0.1 localhost
127.0.1.1 ${hostname}
::1 localhost ip6-localhost ip6-loopback
`;
export const resolvFile = `nameserver ${nameserver}\n`;

/** every file we write, by its path below /etc; `path` is the PATH of programs */
export function etcFiles(path: string, release: OsRelease, conventions: ImageConventions): Record<string, EtcFile> {
  const plain = plainUsers(conventions);
  return {
    passwd: { text: passwdFile(plain) },
    group: { text: groupFile(plain) },
    shadow: { text: shadowFile(plain), mode: 0o640, gid: 42 },
    gshadow: { text: "", mode: 0o640, gid: 42 },
    subuid: { text: "" },
    subgid: { text: "" },
    shells: { text: "/bin/sh\n/bin/bash\n/usr/bin/bash\n/bin/dash\n/usr/bin/dash\n" },
    sudoers: { text: sudoersFile(path, plain), mode: 0o440 },
    "pam.d/sudo": { text: permit },
    "pam.d/sudo-i": { text: permit },
    "pam.d/su": { text: permit },
    "pam.d/su-l": { text: permit },
    "pam.d/login": { text: permit },
    "pam.d/other": { text: permit },
    "security/limits.conf": { text: "" },
    hostname: { text: `${hostname}\n` },
    hosts: { text: hostsFile },
    "resolv.conf": { text: resolvFile },
    "nsswitch.conf": { text: nsswitch },
    "host.conf": { text: "multi on\n" },
    networks: { text: "loopback 127.0.0.0\n" },
    // Empty, not missing: programs that need an id make their own at first use.
    "machine-id": { text: "" },
    environment: { text: `PATH="${path}"\nLANG=C.UTF-8\n` },
    "default/locale": { text: "LANG=C.UTF-8\n" },
    timezone: { text: "Etc/UTC\n" },
    fstab: { text: "" },
    issue: { text: `${release.PRETTY_NAME ?? "Linux"}\n` },
    motd: { text: "" },
    profile: { text: profile(path) },
    "bash.bashrc": { text: bashrc },
    "skel/.profile": { text: userProfile },
    "skel/.bashrc": { text: userBashrc },
    "login.defs": { text: loginDefs(path) },
    "adduser.conf": { text: "DSHELL=/bin/bash\nUSERGROUPS=yes\n" },
    "ld.so.conf": { text: "include /etc/ld.so.conf.d/*.conf\n" },
    ...aptFiles(release),
  };
}

/** the fields of an os-release file */
export type OsRelease = Record<string, string>;

export function parseOsRelease(text: string): OsRelease {
  const fields = text.matchAll(/^([A-Z_]+)=(?:"([^"]*)"|'([^']*)'|(.*))$/gm);
  return Object.fromEntries([...fields].map(([, name, a, b, c]) => [name, a ?? b ?? c ?? ""]));
}

/** the .bashrc of a new user's home directory */
export const userBashrc = `# for interactive shells
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth
shopt -s histappend checkwinsize
alias ls='ls --color=auto'
alias ll='ls -l'
`;
export const userProfile = `# for login shells
if [ -n "$BASH_VERSION" ] && [ -f "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
if [ -d "$HOME/.local/bin" ]; then PATH="$HOME/.local/bin:$PATH"; fi
`;

// A user of a sandbox may do everything in it, so no program needs to ask for a password.
const permit = `auth sufficient pam_permit.so
account sufficient pam_permit.so
password sufficient pam_permit.so
session sufficient pam_permit.so
`;

const nsswitch = `passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`;

const bashrc = `# for interactive shells of everyone
[ -z "$PS1" ] && return
shopt -s checkwinsize
PS1='\\u@\\h:\\w\\$ '
`;

function profile(path: string): string {
  return `# for login shells of everyone
PATH="${path}"
export PATH
if [ -n "$BASH_VERSION" ] && [ -n "$PS1" ] && [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
for script in /etc/profile.d/*.sh; do
  if [ -r "$script" ]; then . "$script"; fi
done
unset script
`;
}

function loginDefs(path: string): string {
  return `MAIL_DIR /var/mail
ENV_SUPATH PATH=${path}
ENV_PATH PATH=${path}
TTYPERM 0600
UMASK 022
UID_MIN 1001
UID_MAX 60000
SYS_UID_MIN 101
SYS_UID_MAX 999
GID_MIN 1001
GID_MAX 60000
SYS_GID_MIN 101
SYS_GID_MAX 999
USERGROUPS_ENAB yes
ENCRYPT_METHOD SHA512
`;
}

/** the distribution's public archive: the host's own sources may name private ones, with passwords in them */
function aptFiles(release: OsRelease): Record<string, EtcFile> {
  const suite = release.VERSION_CODENAME;
  const archives: Record<string, string[]> = {
    debian: [
      source("http://deb.debian.org/debian", `${suite} ${suite}-updates`, "main", "debian-archive-keyring"),
      source("http://deb.debian.org/debian-security", `${suite}-security`, "main", "debian-archive-keyring"),
    ],
    ubuntu: [
      source(
        process.arch === "x64" ? "http://archive.ubuntu.com/ubuntu" : "http://ports.ubuntu.com/ubuntu-ports",
        `${suite} ${suite}-updates ${suite}-security`,
        "main universe",
        "ubuntu-archive-keyring",
      ),
    ],
  };
  const sources = archives[release.ID ?? ""];
  if (!sources || !suite) return {};
  return {
    [`apt/sources.list.d/${release.ID}.sources`]: { text: sources.join("\n") },
    // Dropping privileges needs a group list that a sandbox may not set; all users inside are the same party anyway.
    "apt/apt.conf.d/90sandbox": { text: 'APT::Sandbox::User "root";\nAPT::Install-Recommends "false";\n' },
  };
}

function source(uri: string, suites: string, components: string, keyring: string): string {
  return `Types: deb
URIs: ${uri}
Suites: ${suites}
Components: ${components}
Signed-By: /usr/share/keyrings/${keyring}.gpg
`;
}
