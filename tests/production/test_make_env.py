"""``make env`` writes fresh secrets and never overwrites old ones."""

import re
import stat
import subprocess
from pathlib import Path

from slc_ops.base.passwords import check_secrets, weakness
from slc_ops.production.compose import read_env_file

ROOT = Path(__file__).parent.parent.parent


def make_env(path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(ROOT / "scripts" / "make_env.sh"), str(path)], capture_output=True, text=True, check=False
    )


def test_it_writes_every_secret_of_the_compose_file(tmp_path: Path) -> None:
    assert make_env(tmp_path / "env").returncode == 0
    settings = read_env_file(tmp_path / "env")
    demanded = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yaml").read_text()))
    assert set(settings) == demanded
    assert not [name for name, secret in settings.items() if weakness(secret)]
    assert len(set(settings.values())) == len(settings)
    check_secrets({"AIRFLOW__CORE__FERNET_KEY": settings["AIRFLOW_FERNET_KEY"]})


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    make_env(tmp_path / "env")
    assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "env"]


def test_two_files_share_no_secret(tmp_path: Path) -> None:
    make_env(tmp_path / "one")
    make_env(tmp_path / "two")
    one, two = (set(read_env_file(tmp_path / name).values()) for name in ("one", "two"))
    assert not one & two


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    make_env(tmp_path / "env")
    before = (tmp_path / "env").read_bytes()
    assert make_env(tmp_path / "env").returncode == 0
    assert (tmp_path / "env").read_bytes() == before


def test_secrets_missing_in_an_old_file_are_named_but_not_added(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("POSTGRES_PASSWORD=kept\nREDIS_PASSWORD=\n")
    result = make_env(tmp_path / "env")
    assert result.returncode == 2
    assert "REDIS_PASSWORD" in result.stderr
    assert "METRICS_TOKEN" in result.stderr
    assert "POSTGRES_PASSWORD" not in result.stderr
    assert (tmp_path / "env").read_text() == "POSTGRES_PASSWORD=kept\nREDIS_PASSWORD=\n"
