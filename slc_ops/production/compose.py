"""The services of ``docker-compose.yaml`` without Docker: same commands and variables, on loopback."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import make_directory
from slc_ops.base.passwords import secrets_in

ENTRYPOINT = ["python", "-m", "slc_ops.production", "run"]
"""The entry point of the Dockerfile: check, then execute the command."""

ON_ONE_HOST = {
    "POSTGRES_ADDRESS": "127.0.0.1:5432",
    "REDIS_ADDRESS": "127.0.0.1:6379",
    "AIRFLOW_ADDRESS": "127.0.0.1:8080",
    "MLFLOW_ADDRESS": "127.0.0.1:5000",
    "S3_ENDPOINT_URL": "http://127.0.0.1:7070",
    "AIRFLOW_BIND": "127.0.0.1",
    "MLFLOW_BIND": "127.0.0.1",
    "METRICS_BIND": "127.0.0.1",
}
"""Default addresses on one host; .env may override each."""

DIRECTORIES = ("SLC_OPS_HOME", "AIRFLOW_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER")

_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Za-z_]\w*)(?:(:[-?])([^}]*))?\})")


@dataclass(frozen=True)
class Service:
    """A service's command and its variables, which extend those of the host."""

    command: list[str]
    environment: dict[str, str]

    def shown(self) -> dict[str, str]:
        """Return the variables with secrets masked."""
        secrets = sorted({secret for _, secret in secrets_in(self.environment)}, key=len, reverse=True)
        if not secrets:
            return dict(self.environment)
        pattern = re.compile("|".join(map(re.escape, secrets)))
        return {name: pattern.sub("***", value) for name, value in self.environment.items()}

    def exec(self, command: list[str]) -> NoReturn:
        """Replace this process by a command with the service's variables."""
        for name in DIRECTORIES:
            make_directory(Path(self.environment[name]))
        execute(command, os.environ | self.environment)


def execute(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command."""
    sys.stdout.flush()
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell
    except OSError as error:
        raise SettingsError(f"cannot run {command[0]!r}: {error.strerror}") from None


def read_service(file: Path, name: str, settings: Mapping[str, str]) -> Service:
    """Read one of our services from the compose file; ``settings`` fill in its variables."""
    services = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
    ours = [each for each, entry in services.items() if "build" in entry and "command" in entry]
    if name not in ours:
        raise SettingsError(f"no service {name!r} of ours in {file}; it has {', '.join(ours)}")
    entry: dict[str, Any] = services[name]
    places = _places(file.parent.absolute(), settings)
    variables = ON_ONE_HOST | places | dict(settings)
    entrypoint = entry.get("entrypoint", ENTRYPOINT)
    command = [sys.executable if word == "python" else word for word in entrypoint]
    command += [interpolate(word, variables) for word in entry["command"]]
    given = {key: interpolate(str(value), variables) for key, value in entry["environment"].items()}
    return Service(command, places | _extra(file.parent, entry) | given)


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Substitute variables as Compose does, limited to the syntax of our file.

    >>> interpolate("${USER_NAME:-ann}@${HOST_NAME:?say which host} for 5 $$", {"HOST_NAME": "db"})
    'ann@db for 5 $'
    """

    def value(match: re.Match[str]) -> str:
        escaped, name, operator, argument = match.groups()
        if escaped:
            return "$"
        found = variables.get(name, "")
        if found or operator is None:
            return found
        if operator == ":?":
            raise SettingsError(f"{name} is not set: {argument}")
        return str(argument)

    return _VARIABLE.sub(value, text)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the ``NAME=value`` lines of an env file; comments and empty lines are ignored."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; run make env") from None
    settings = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise SettingsError(f"{path}:{number}: expected NAME=value")
        settings[name] = value
    return settings


def _places(root: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the Dockerfile's variables with this host's directories, below the home and the checkout."""
    home = Path(settings.get("SLC_OPS_HOME") or root / "var" / "production").absolute()
    deployments = root / (settings.get("DEPLOYMENTS_FILE") or "dags/deployments.yaml")
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "SLC_OPS_HOME": str(home),
        "SLC_OPS_DEPLOYMENTS": str(deployments),
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "MLFLOW_AUTH_FILE": str(home / "mlflow-auth.ini"),
        "MPLBACKEND": "Agg",
    }


def _extra(root: Path, entry: dict[str, Any]) -> dict[str, str]:
    """Return the variables of the service's env files; missing files are ignored."""
    files = [root / each["path"] for each in entry.get("env_file", [])]
    return {name: value for file in files if file.exists() for name, value in read_env_file(file).items()}


_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_EXACT = re.compile(r"(?:[^:@\s]+(?::[0-9]+/[^:@\s]+)?):v?[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:[.-][A-Za-z0-9.-]+)?")


def is_pinned(image: str) -> bool:
    """Return True if an image is pinned by digest, False if it has an exact version.

    Raises :class:`~slc_ops.base.errors.SettingsError` for a floating name (no tag, ``latest``, a major
    version), whose image may change.

    >>> is_pinned("postgres@sha256:" + 64 * "0"), is_pinned("postgres:16.14-alpine")
    (True, False)
    """
    if _DIGEST.fullmatch(image):
        return True
    if not _EXACT.fullmatch(image):
        raise SettingsError(
            f"the image {image!r} may be another one next week; name it by digest (name@sha256:…) or by an "
            "exact version (name:1.2.3)"
        )
    return False


def images(compose_file: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return every external image that the compose file runs or builds upon, by service."""
    services = yaml.safe_load(compose_file.read_text(encoding="utf-8"))["services"]
    found = {}
    for name, entry in services.items():
        if "build" not in entry:
            found[name] = interpolate(entry["image"], settings)
        else:
            found["slc-ops (built upon)"] = interpolate(entry["build"]["args"]["PYTHON_IMAGE"], settings)
    return found
