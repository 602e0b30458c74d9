"""Containers of the image under test, started as compose.yaml starts them.

`VRAG_IMAGE` names the image and `VRAG_ENGINE` the program that runs it, docker or podman: `make image-check`
sets both.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).parents[2]
SERVICE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"][
    "vrag"
]
ENGINE = os.environ.get("VRAG_ENGINE", "podman")
IMAGE = os.environ.get("VRAG_IMAGE", "")
TOKEN = "0123456789abcdef0123456789abcdef"
START_SECONDS = 180


def engine(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Call the engine. Raises `AssertionError` with its output if it fails and `check` is set."""
    done = subprocess.run([ENGINE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, f"{ENGINE} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done


def inspect(kind: str, name: str) -> dict[str, Any]:
    return json.loads(engine(kind, "inspect", name).stdout)[0]


def confinement() -> list[str]:
    """Return the options that confine the service in compose.yaml."""
    options = [f"--cap-drop={name}" for name in SERVICE["cap_drop"]]
    options += [f"--security-opt={option.removesuffix(':true')}" for option in SERVICE["security_opt"]]
    options += [f"--tmpfs={mount}" for mount in SERVICE["tmpfs"]]
    return [
        *options,
        *(["--read-only"] if SERVICE["read_only"] else []),
        *(["--init"] if SERVICE["init"] else []),
    ]


def run_once(*arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command of the image in a confined container, which is removed."""
    return engine("run", "--rm", *confinement(), *options, IMAGE, *arguments, check=False)


@contextmanager
def volume(name: str) -> Generator[str]:
    """Create a volume, and remove it in the end."""
    engine("volume", "create", name)
    try:
        yield name
    finally:
        engine("volume", "rm", "--force", name)


@dataclass(frozen=True)
class Container:
    """A running service."""

    name: str

    @property
    def client(self) -> httpx.Client:
        """A new client, with the token. The port changes when the container is started again."""
        address = engine("port", self.name, "8000").stdout.split()[0]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=f"http://{address}", headers=headers, timeout=60)

    def wait_until_ready(self) -> None:
        """Wait for the first response. Raises `AssertionError` with the log if the container ends before."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert inspect("container", self.name)["State"]["Running"], self.logs()
            with self.client as client, suppress(httpx.TransportError):
                if client.get("/healthz").is_success:
                    return
            time.sleep(0.2)
        raise AssertionError(f"no response in {START_SECONDS} s: {self.logs()}")

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        return engine("exec", self.name, *command, check=False)

    def logs(self) -> str:
        done = engine("logs", self.name)
        return done.stdout + done.stderr

    def stop(self) -> int:
        """Stop the service with the grace period of compose.yaml. Returns its exit status."""
        engine("stop", "--time", SERVICE["stop_grace_period"].removesuffix("s"), self.name)
        return inspect("container", self.name)["State"]["ExitCode"]

    def start(self) -> None:
        engine("start", self.name)
        self.wait_until_ready()


@contextmanager
def service(name: str, *options: str) -> Generator[Container]:
    """Start the service as compose.yaml does, on a free port of this machine; remove it in the end."""
    environment = (f"--env=VRAG_API_KEY={TOKEN}", "--publish=127.0.0.1::8000")
    try:
        engine("run", "--detach", f"--name={name}", *confinement(), *environment, *options, IMAGE)
        container = Container(name)
        container.wait_until_ready()
        yield container
    finally:
        engine("rm", "--force", name, check=False)
