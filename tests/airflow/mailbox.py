"""Airflow notifiers that write to a file, or fail."""

from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class Mailbox(BaseNotifier):
    """Append a line per message; the text is a template, as in Airflow's own notifiers."""

    template_fields = ("text",)

    def __init__(self, file: str, text: str) -> None:
        super().__init__()
        self.file = file
        self.text = text

    def notify(self, context: Any) -> None:
        """Write the rendered text."""
        with Path(self.file).open("a") as stream:
            stream.write(self.text + "\n")


class Broken(BaseNotifier):
    """A notifier that cannot deliver."""

    def notify(self, context: Any) -> None:
        """Fail."""
        raise ConnectionError("unreachable")
