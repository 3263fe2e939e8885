"""Emulators of cloud services on loopback, each installed into its own directory."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.release.environments import clean_environment, install, make_environment


@contextmanager
def answering(command: list[str], port: int, log: Path) -> Iterator[None]:
    """Run a server for the duration of a block; stop its process group."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=clean_environment(), start_new_session=True
        )
    try:
        for _ in range(300):
            assert server.poll() is None, log.read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            raise AssertionError(f"no server answers on {port}: {log.read_text()[-2000:]}")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


def environment_with(directory: Path, *packages: str) -> Path:
    """Create an environment with these packages; return its interpreter."""
    python = make_environment(directory)
    install(python, *packages, pins=[])
    return python


def free_port() -> int:
    """A free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
