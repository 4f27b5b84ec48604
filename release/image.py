"""`make image`: execute the steps of deploy/Dockerfile without a container engine, then kill what runs in the image.

1. each stage in a plain folder as its root: the wheel of this tree, installed with its extras
2. a container of the last stage as compose.yml starts it: no rights, a read-only root, one volume, its own network
3. the image's own health check
4. a client that writes, while the server is killed with -9; started again it holds everything it acknowledged
5. SIGTERM, after which the store's own check finds nothing wrong

The base is this machine's `/usr` with one of its interpreters, not Debian's slim image: what is shown is the steps and
what the server needs of its container.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from release.__main__ import ROOT, build
from release.container import PATH, CannotRun, Container, Root, missing
from release.dockerfile import Stage, Start, environment, stages, start
from release.interpreters import interpreters

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PATIENCE_SECONDS = 120  # a limit for what hangs, not for what is slow
KEY = "STRONGROOM_API_KEY"
# Writes one message after another and says which were acknowledged, until it is killed.
WRITER = f"""
import itertools, os, strongroom
with strongroom.connect("http://127.0.0.1:8000", key=os.environ["{KEY}"]) as ctx:
    chat = ctx.sessions.open("killed")
    for number in itertools.count():
        chat.append({{"role": "user", "content": str(number)}})
        print(number, flush=True)
"""
READER = f"""
import os, strongroom
with strongroom.connect("http://127.0.0.1:8000", key=os.environ["{KEY}"]) as ctx:
    print(" ".join(message["content"] for message in ctx.sessions.get("killed")))
"""
# What the root refuses even to its own root user.
WRITES = (
    "import errno\ntry:\n    open('/opt/x', 'w')\nexcept OSError as error:\n    print(errno.errorcode[error.errno])"
)


class Image:
    """The last stage of a Dockerfile, built into a folder."""

    def __init__(self, root: Root, start: Start) -> None:
        self.root = root
        self.start = start


def build_image(folder: Path, python: str, context: Path, ready: dict[str, Root] | None = None) -> Image:
    """Execute every stage, except those that are `ready`, and return the last one."""
    roots = dict(ready or {})
    told = stages(DOCKERFILE.read_text())
    for stage in told:
        if stage.name not in roots:
            roots[stage.name] = Root(folder / stage.name, python)
            _execute(stage, roots, context)
    return Image(roots[told[-1].name], start(told[-1]))


def _execute(stage: Stage, roots: dict[str, Root], context: Path) -> None:
    root = roots[stage.name]
    for step in stage.steps:
        if step.word == "COPY":
            _copy(step.rest.split(), root, roots, context)
        elif step.word == "RUN":
            variables = {**environment(stage.steps), **_of_pip()}
            variables["PATH"] = variables.get("PATH", PATH).replace("$PATH", PATH)
            with Container(root, binds=_sources_of_pip(), read_only=False, network=True) as container:
                container.run(["sh", "-ec", step.rest], environment=variables, stdout=None)


def _copy(words: list[str], root: Root, roots: dict[str, Root], context: Path) -> None:
    source = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
    *patterns, target = words
    place = root.inside(target)
    if source is not None:
        shutil.copytree(roots[source].inside(patterns[0]), place, symlinks=True)
        return
    place.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for path in context.glob(pattern):
            shutil.copy(path, place)


def _of_pip() -> dict[str, str]:
    """Return how pip is set up here, so that it finds packages inside as it does outside."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = [line.partition("=") for line in listed.stdout.splitlines()]
    return {
        f"PIP_{name.rpartition('.')[2].upper().replace('-', '_')}": shlex.split(value)[0]
        for name, _, value in settings
        if shlex.split(value)
    }


def _sources_of_pip() -> dict[str, str]:
    """Return the folders and files of this machine that pip is told to look at; an index lies beside its files."""
    words = [word for value in _of_pip().values() for word in value.split()]
    named = [str(Path(word[7:]).parent) if word.startswith("file://") else word for word in words]
    there = [word for word in named if word.startswith("/") and Path(word).exists()]
    return {word: word for word in there if not word.startswith("/etc/ssl/")}


class Trial:
    """One container of the image over one volume, and what has to hold of it."""

    def __init__(self, image: Image, volume: Path, binds: dict[str, str] | None = None) -> None:
        self.image = image
        told = image.start
        shutil.copytree(image.root.inside(told.volumes[0]), volume)
        uid, gid = map(int, told.user.split(":"))
        shutil.chown(volume, uid, gid)
        self.container = Container(image.root, binds=binds, volumes={told.volumes[0]: volume})
        variables = {**told.environment, "PATH": told.environment["PATH"].replace("$PATH", PATH)}
        self._as_user: dict[str, Any] = {"user": told.user, "folder": told.folder, "environment": variables}

    def check(self) -> None:
        """Hold the image to what deploy/ says of it; raise an AssertionError for what does not hold."""
        with self.container:
            shown = self._run(*self.image.start.entrypoint, "keys", "create", "--role", "admin", "--json")
            self._as_user["environment"] = {**self._as_user["environment"], KEY: json.loads(shown)["key"]}
            assert self.container.run(["python3", "-c", WRITES]) == "EROFS\n", "the root file system is writable"
            server = self._serve()
            self._check_rights(server.pid)
            written = self._written_until_killed(server)
            again = self._serve()
            kept = self._run("python", "-c", READER).split()
            assert kept[: len(written)] == written, f"{len(written)} were acknowledged, {kept[-3:]} are the last kept"
            again.send_signal(signal.SIGTERM)
            assert again.wait(PATIENCE_SECONDS) in (0, -signal.SIGTERM), "the server did not stop when told to"
            self._run(*self.image.start.entrypoint, "check")

    def _run(self, *command: str) -> str:
        return self.container.run(command, **self._as_user)

    def _serve(self) -> subprocess.Popen[str]:
        """Start what the image starts, and ask its own health check until that is content."""
        told = self.image.start
        server = self.container.start([*told.entrypoint, *told.command], stdout=subprocess.DEVNULL, **self._as_user)
        limit = time.monotonic() + PATIENCE_SECONDS
        while True:
            asked = self.container.start(told.health, stdout=subprocess.DEVNULL, **self._as_user)
            if asked.wait(PATIENCE_SECONDS) == 0:
                return server
            assert server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < limit, "the health check was never content"

    def _check_rights(self, pid: int) -> None:
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        uid = self.image.start.user.partition(":")[0]
        assert told["Uid"].split() == [uid] * 4, f"the server runs as {told['Uid']}"
        assert (int(told["CapEff"], 16), told["NoNewPrivs"].strip()) == (0, "1"), "the server has rights"

    def _written_until_killed(self, server: subprocess.Popen[str]) -> list[str]:
        writer = self.container.start(["python", "-c", WRITER], **self._as_user)
        assert writer.stdout is not None
        written = [writer.stdout.readline().strip() for _ in range(50)]
        server.kill()  # in the midst of the next
        server.wait()
        writer.kill()
        return [*written, *writer.communicate()[0].split("\n")[:-1]]


def main() -> None:
    if why := missing():
        sys.exit(f"the image was not tried: {why}")
    python = interpreters().get("3.13", sys.executable)
    with tempfile.TemporaryDirectory(prefix="strongroom-image-") as scratch:
        folder = Path(scratch)
        (folder / "context" / "dist").mkdir(parents=True)
        build(folder / "context" / "dist")
        image = build_image(folder / "roots", python, folder / "context")
        Trial(image, folder / "volume").check()
    print(
        "the image's server answered its health check without rights on a read-only root, and lost nothing to kill -9"
    )


if __name__ == "__main__":
    try:
        main()
    except (CannotRun, subprocess.CalledProcessError, AssertionError) as problem:
        sys.exit(f"the image does not hold: {problem}")
