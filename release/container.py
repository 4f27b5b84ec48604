"""A container without an engine: a plain folder as the root, in mount and network namespaces of its own.

* `Root` is a folder that stands for a base image: this machine's `/usr` and one interpreter, bound read-only, below a
  tree that steps may write to.
* `Container` is one process that holds the namespaces, as the pause container of a pod does: the root read-only, a
  `/tmp` of its own, the volumes. Commands join it, so a process here is the command itself and can be killed.

Needs Linux, root, and `unshare`, `nsenter`, `setpriv`, `mount`, `ip`. Everything mounted goes with the last process,
and every process with the one that started it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TOOLS = ("unshare", "nsenter", "chroot", "setpriv", "mount", "ip")
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin"
ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}


class CannotRun(Exception):
    """This machine cannot run a container this way."""


class Root:
    """A folder that stands for a base image: one interpreter in /usr/local, as in the images of Python."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.python = python
        prefix = str(Path(python).resolve().parents[1])
        self.bound = {"/usr": "/usr", "/usr/local": prefix, prefix: prefix}  # its libraries may lie where it was made
        if Path("/etc/ssl").exists():
            self.bound["/etc/ssl"] = "/etc/ssl"
        self._fill()

    def _fill(self) -> None:
        for name in ("tmp", "root", "opt", "proc", "dev", "etc"):
            (self.folder / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib32", "lib64"):
            if Path("/", name).is_symlink():
                (self.folder / name).symlink_to(Path("/", name).readlink())
            elif Path("/", name).exists():
                self.bound[f"/{name}"] = f"/{name}"
        for name, text in ETC.items():
            (self.folder / "etc" / name).write_text(text)
        for name in ("resolv.conf", "ld.so.cache"):
            if Path("/etc", name).exists():
                shutil.copyfile(Path("/etc", name), self.folder / "etc" / name)

    def inside(self, path: str) -> Path:
        """Return where a path of the container is on this machine."""
        return self.folder / path.lstrip("/")


class Container:
    """A root with mounts and a network of its own, while it is entered. Closing it ends what still runs in it."""

    def __init__(
        self,
        root: Root,
        *,
        binds: Mapping[str, str] | None = None,
        volumes: Mapping[str, Path] | None = None,
        read_only: bool = True,
        network: bool = False,
    ) -> None:
        self.root = root
        self._started: list[subprocess.Popen[str]] = []
        script = _mounts(root, binds or {}, volumes or {}, read_only)
        spaces = ["--mount"] if network else ["--mount", "--net"]
        up = "" if network else "ip link set lo up\n"
        self._holder = subprocess.Popen(
            ["unshare", *spaces, "sh", "-ec", f"{script}{up}echo ready; exec setpriv --pdeathsig KILL sleep infinity"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != "ready\n":
            problem = self._holder.communicate()[1].strip()
            raise CannotRun(f"no namespaces with mounts of their own: {problem}")
        self._join = ["nsenter", "--target", str(self._holder.pid), "--mount"]
        self._join += [] if network else ["--net"]

    def start(
        self,
        command: Sequence[str],
        *,
        user: str = "0:0",
        folder: str = "/",
        environment: Mapping[str, str] | None = None,
        stdout: int | IO[str] | None = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a command in the container. Its process is the command itself: every step before it is an exec."""
        given = {"PATH": PATH, "HOME": "/", **(environment or {})}
        variables = [f"{name}={value}" for name, value in given.items()]
        uid, _, gid = user.partition(":")
        rights = ["setpriv", "--pdeathsig=KILL", f"--reuid={uid}", f"--regid={gid or uid}", "--clear-groups"]
        if uid != "0":
            rights += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        there = ["chroot", str(self.root.folder), *rights, "env", "-i", "-C", folder, *variables]
        process = subprocess.Popen([*self._join, *there, *command], stdout=stdout, text=True)
        self._started.append(process)
        return process

    def run(self, command: Sequence[str], **options: Any) -> str:
        """Run a command in the container to its end and return what it printed; raise if it failed."""
        process = self.start(command, **options)
        told = process.communicate(timeout=900)[0] or ""
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, list(command), told)
        return told

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._started, self._holder):
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def missing() -> str:
    """Return why containers cannot run here, or nothing if nothing speaks against it."""
    if not sys.platform.startswith("linux"):
        return "namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root may mount"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"{', '.join(absent)} is not installed" if absent else ""


def _mounts(root: Root, binds: Mapping[str, str], volumes: Mapping[str, Path], read_only: bool) -> str:
    """Return the shell commands that mount everything below a root, and then the root itself over itself."""
    top = str(root.folder)
    lines = [f"mount --bind '{top}' '{top}'"]
    for target, source in sorted({**root.bound, **binds}.items()):
        place = f"{top}{target}"
        lines.append(f"[ -e '{place}' ] || mkdir -p '{place}'")
        lines += [f"mount --bind '{source}' '{place}'", f"mount -o remount,bind,ro '{place}'"]
    lines += [
        f"mount --rbind /proc '{top}/proc'",
        f"mount --rbind /dev '{top}/dev'",
        f"mount -t tmpfs none '{top}/tmp'",
    ]
    lines += [f"mkdir -p '{top}{target}'" for target in volumes]
    lines += [f"mount -o remount,bind,ro '{top}'"] if read_only else []
    lines += [f"mount --bind '{source}' '{top}{target}'" for target, source in volumes.items()]
    return "".join(f"{line}\n" for line in lines)
