"""A real Spark standalone cluster on loopback (one master, two workers) from the PySpark package."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # for tests of minutes on two cores
SMALL = (
    f"--driver-memory 512m --driver-java-options '{LIGHT}' --conf spark.executor.memory=512m "
    f"--conf 'spark.executor.extraJavaOptions={LIGHT}' pyspark-shell"
)


def why_not() -> str | None:
    """The reason why no cluster can run on this machine, or None."""
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (make spark installs the extra)"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java; Spark 4 needs Java 17 or later"
    return None


@dataclass
class Cluster:
    """The processes of a cluster; stopped by process id."""

    directory: Path
    cores: int = 1
    memory: str = "1g"
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, workers: int = 2) -> "Cluster":
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._launch("master", "master.Master", "--port", str(self.port))
        wait_for(lambda: reachable(self.port), 60, "the master to listen", self.log("master"))
        for number in range(workers):
            self.add_worker(f"worker-{number}")
        return self

    def add_worker(self, name: str) -> None:
        place = self.directory / name
        arguments = ["--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(place)]
        self._launch(name, "worker.Worker", *arguments, self.master)
        registered = "Successfully registered with master"
        wait_for(lambda: registered in self.log(name).read_text(), 60, f"{name} to register", self.log(name))

    def kill(self, name: str) -> None:
        """SIGKILL a worker and its executor, as if the machine were lost."""
        process = self.processes.pop(name)
        children = descendants(process.pid)
        for pid in [process.pid, *children]:
            os.kill(pid, signal.SIGKILL)
        process.wait(30)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            process.wait(30)
        self.processes.clear()

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _launch(self, name: str, kind: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": LIGHT,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        command += ["--host", "127.0.0.1", "--webui-port", str(free_port()), *arguments]
        with self.log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def descendants(pid: int) -> list[int]:
    """All processes below one, from /proc."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(ready, seconds: float, what: str, log: Path) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s for {what}: {log.read_text()[-2000:]}")
        time.sleep(0.1)
