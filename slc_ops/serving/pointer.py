"""The target of an alias, and the rule for following it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from slc_ops.base.errors import RegistryError
from slc_ops.base.window import Window, parse_timestamp


class NoAlias(RegistryError):
    """The registry has no such alias for the model."""


@dataclass(frozen=True)
class Pointer:
    """A version's description in the registry; small enough to request every few seconds."""

    version: int
    run_id: str
    source: str
    """Address of the model's files."""
    window: Window
    """The window of the fit."""
    revision: int | None
    """The ledger revision that made this version champion, 1, 2, 3 …; None without one."""
    move: str | None
    """The kind of that change: ``promotion``, ``rollback`` and so on."""

    def __post_init__(self) -> None:
        """Validate the values of a registry or a file: :attr:`name` becomes a directory's name."""
        plain = re.fullmatch(r"[A-Za-z0-9_-]{0,64}", self.run_id) if isinstance(self.run_id, str) else None
        numbers = [self.version, self.revision or 0]
        texts = [self.source, self.move or ""]
        if (
            plain is None
            or not all(type(number) is int and 0 <= number < 2**63 for number in numbers)
            or not all(isinstance(text, str) for text in texts)
        ):
            raise RegistryError(
                f"version {self.version!r:.40} with run {self.run_id!r:.40} does not describe a version; "
                "expected whole numbers, and a run id of letters and digits"
            )

    @classmethod
    def from_tags(cls, version: Any, run_id: str, source: str, tags: Mapping[str, str]) -> "Pointer":
        """Read the tags of publishing and promoting; a missing window raises :class:`RegistryError`."""
        try:
            window = Window(parse_timestamp(tags["window_start"]), parse_timestamp(tags["window_end"]))
            revision = int(tags["ledger_revision"]) if "ledger_revision" in tags else None
            number = int(version)
        except (KeyError, ValueError) as error:
            raise RegistryError(
                f"version {version} in the registry has no readable tag {error}; publish it with slc-ops"
            ) from None
        return cls(number, run_id, source, window, revision, tags.get("ledger_move"))

    @property
    def name(self) -> str:
        """A directory name that is unique even if another registry counts from 1 again."""
        return f"{self.version}-{self.run_id[:12]}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, for the cache."""
        return {**vars(self), "window": str(self.window)}


@dataclass(frozen=True)
class Retired:
    """The registry's mark of a retired champion: the frozen model serves."""

    revision: int
    """The ledger revision of the retirement."""
    name: ClassVar[str] = "retired"
    version: ClassVar[None] = None
    window: ClassVar[None] = None

    def __post_init__(self) -> None:
        if type(self.revision) is not int or not 0 < self.revision < 2**63:
            raise RegistryError(f"{self.revision!r:.40} names no change of the ledger; expected 1, 2, 3 …")

    @classmethod
    def from_tag(cls, tag: str | None) -> "Retired | None":
        """Read the registered model's tag; None without a valid one."""
        return cls(int(tag)) if tag is not None and re.fullmatch(r"[0-9]{1,18}", tag) else None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, for the cache."""
        return {"retired": self.revision}


Named = Pointer | Retired
"""The registry's target: a version or a retirement."""


def named_from_dict(values: Any) -> Named:
    """Read the result of :meth:`Pointer.as_dict` or :meth:`Retired.as_dict`."""
    if set(values) == {"retired"}:
        return Retired(values["retired"])
    return Pointer(**{**values, "window": Window.parse(values["window"])})


def check_may_follow(current: Named, candidate: Named) -> None:
    """Raise :class:`RegistryError` if the target is older or a retirement, without a newer ledger revision.

    The ledger goes back only by a rollback, so a higher revision is always followed (this host may have
    missed the rollback and see the promotion after it). An alias that was set by hand has no higher revision:
    it is followed only from a version to a window that is not older.
    """
    if candidate.revision is not None and candidate.revision > (current.revision or 0):
        return
    if current == candidate:
        return
    if isinstance(candidate, Retired):
        raise RegistryError(
            f"the alias is gone, and the newest retirement, change {candidate.revision} of the ledger, is "
            "older than what serves here, which stays (slc-ops verify --repair sets the alias again)"
        )
    if isinstance(current, Retired):
        raise RegistryError(
            f"the alias points to version {candidate.version}, but change {current.revision} of the ledger "
            "retired the champion and no later one is recorded; the frozen model stays (slc-ops verify shows "
            "the difference, slc-ops promote serves a version on all hosts)"
        )
    if candidate.window.end >= current.window.end:
        return
    raise RegistryError(
        f"the alias points to version {candidate.version} of window {candidate.window}, older than version "
        f"{current.version} of {current.window}, and no rollback is recorded; version {current.version} "
        "stays (slc-ops verify shows the difference, slc-ops rollback returns to it on all hosts)"
    )
