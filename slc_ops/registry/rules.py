"""The rules for becoming champion: pure functions of the ledger's rows, without a database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from slc_ops.base.errors import PromotionConflict, PromotionRefused, RegistryError
from slc_ops.base.window import Window
from slc_ops.registry.publication import RETIREMENT, ROLLBACK, ChampionChange, Version

Against = int | Literal["none"]
NO_CHAMPION: Final = "none"
"""Value of ``against`` for a decision made without a champion; None means not stated."""


ACT: Final = "act"
"""Key in a change's evidence: its author (person or rule) and the champion it removed."""


@dataclass(frozen=True)
class TakenBack:
    """A champion that a person removed by a rollback or a retirement."""

    change: ChampionChange
    version: int
    method: str
    window: Window
    windows: int | None
    """Windows after its own in which a rule may not promote the method; None: until a person promotes it."""
    exclude: bool
    """True if later fits exclude the window."""

    def waits(self, window: Window) -> bool:
        """Return True if a rule may not promote the method with this window."""
        if self.windows is None:
            return True
        return window.before(self.windows)[0].start < self.window.end

    @property
    def sentence(self) -> str:
        """The sentence for status, verdict, gate and page."""
        until = (
            "until a person promotes it"
            if self.windows is None
            else f"until {self.windows} windows after {self.window} have passed"
        )
        return (
            f"{self.method} (version {self.version}, window {self.window}) was withdrawn by "
            f"{self.change.actor} at {self.change.at:%Y-%m-%d %H:%M} UTC {until}: {self.change.reason}"
            + ("; later fits leave its window out" if self.exclude else "")
        )


def with_author(
    evidence: Mapping[str, Any] | None, request: str | None, *, person: bool, method: str | None,
    taken: Version | None = None, windows: int | None = None, exclude: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Add a change's request and author to its evidence; ``taken`` is the champion that a person removed."""
    said: dict[str, Any] = {"person": person, "method": method}
    if person and taken is not None:
        of = {"version": taken.number, "method": taken.method, "window": taken.window.as_dict()}
        said["taken_back"] = of | {"windows": windows, "exclude": exclude}
    return {**(evidence or {}), **({} if request is None else {"request": request}), ACT: said}


def taken_back(line: Sequence[ChampionChange]) -> list[TakenBack]:
    """Return the champions that people removed, oldest first, but methods that a person promoted again."""
    found: list[TakenBack] = []
    for change in line:
        said = change.evidence.get(ACT) or {}
        if said.get("person") and change.to_version is not None:
            found = [each for each in found if each.method != said["method"]]
        if (one := _taken_by(change)) is not None:
            found.append(one)
    return found


def excluded_by_people(line: Sequence[ChampionChange]) -> list[TakenBack]:
    """Return the windows that people excluded from later fits, unless a person promoted the version again."""
    found = [one for change in line if (one := _taken_by(change)) is not None and one.exclude]
    return [
        one
        for one in found
        if not any(
            later.to_version == one.version and (later.evidence.get(ACT) or {}).get("person")
            for later in line
            if later.revision > one.change.revision
        )
    ]


def _taken_by(change: ChampionChange) -> TakenBack | None:
    said = (change.evidence.get(ACT) or {}).get("taken_back")
    if said is None:
        return None
    window = Window.from_dict(said["window"])
    return TakenBack(change, said["version"], said["method"], window, said["windows"], said["exclude"])


def check_after_people(what: str, window: Window, line: Sequence[ChampionChange]) -> None:
    """Raise :class:`PromotionRefused` if the window ends no later than that of a removed champion."""
    for each in taken_back(line):
        if window.end <= each.window.end:
            raise PromotionRefused(
                f"{what} is of window {window}, and {each.sentence}; only later windows change the champion "
                "by rule; a person may promote any"
            )


def check_signed(actor: str, reason: str) -> None:
    """Raise :class:`RegistryError` without an actor and a reason."""
    if not actor.strip() or not reason.strip():
        raise RegistryError("a change of the champion needs an actor and a reason; give both")


def changed_by(line: Sequence[ChampionChange], request: str | None) -> ChampionChange | None:
    """Return the change that a request already made, or None; a retried task must not roll back twice."""
    if request is None:
        return None
    return next((change for change in line if change.evidence.get("request") == request), None)


def check_against(
    against: Against | None,
    champion: Version | None,
    line: Sequence[ChampionChange],
    deployment: str,
    *,
    automatic: bool,
) -> None:
    """Refuse a decision that was made against another champion than the current one.

    A person may omit the comparison (``None``); a schedule may not.
    """
    if against is None:
        if automatic:
            raise PromotionRefused(
                f"an automatic promotion of {deployment} must say which champion it was compared with "
                f"(a version, or {NO_CHAMPION!r}); found neither"
            )
        return
    found: Against = NO_CHAMPION if champion is None else champion.number
    if against != found:
        compared = "no champion" if against == NO_CHAMPION else f"champion {against}"
        present = "there is no champion" if not line else str(line[-1])
        raise PromotionConflict(
            f"the decision was made against {compared} of {deployment}, but {present}; check the new "
            "champion, then decide again (a refresh that is run again compares with it)"
        )


def check_promotion(
    candidate: Version,
    champion: Version | None,
    line: Sequence[ChampionChange],
    *,
    override: str | None,
    automatic: bool,
    verdict: str,
) -> None:
    """Raise :class:`PromotionRefused` unless ``candidate`` may follow ``champion``.

    ``verdict`` is that of its newest evidence.

    * An older window never replaces a newer one; use a rollback to go back. After a retirement a person may
      promote any version; a schedule only windows not older than the retired champion's.
    * ``reject`` needs an override, which is recorded.
    * A schedule (``automatic``) promotes only the verdict ``promote`` and cannot override. After a person
      removed a champion, it promotes only later windows, and the removed method only after the stated number
      of windows. A retried task must not undo a person's decision.
    """
    name = f"version {candidate.number} of {candidate.deployment}"
    if champion is not None and candidate.window.end < champion.window.end:
        raise PromotionRefused(
            f"{name} is of window {candidate.window}, older than {champion.window} of the champion, version "
            f"{champion.number}; an older window never replaces a newer one (to go back, use rollback)"
        )
    if automatic:
        _check_automatic(name, candidate, champion, line, override, verdict)
    elif verdict == "reject" and not override:
        raise PromotionRefused(
            f"{name} was rejected by its evidence; to promote it nevertheless, give an override with "
            'its reason (--override "why"), which is recorded'
        )


def _check_automatic(
    name: str,
    candidate: Version,
    champion: Version | None,
    line: Sequence[ChampionChange],
    override: str | None,
    verdict: str,
) -> None:
    if override:
        raise PromotionRefused(f"{name}: a schedule cannot override the evidence; a person can")
    if verdict != "promote":
        raise PromotionRefused(
            f"{name} has the verdict {verdict!r}; without a person only 'promote' is promoted"
        )
    for earlier in reversed(line):
        if earlier.kind in (ROLLBACK, RETIREMENT) and earlier.from_version == candidate.number:
            raise PromotionRefused(
                f"{name} was withdrawn ({earlier}); a person may promote it again, a schedule may not"
            )
    check_after_people(name, candidate.window, line)
    serves = None if champion is None else champion.method
    for each in taken_back(line):
        if candidate.method == each.method != serves and each.waits(candidate.window):
            raise PromotionRefused(
                f"{name}: {each.sentence}; a schedule may not promote it, a person may: slc-ops promote "
                f"--deployment {candidate.deployment} --version {candidate.number}"
            )
    if line and line[-1].kind == RETIREMENT and candidate.window.end < line[-1].window.end:
        raise PromotionRefused(
            f"{name} is of window {candidate.window}, older than {line[-1].window} of the champion that was "
            f"retired ({line[-1]}); a person may promote it, a schedule may not"
        )


def check_retirement(
    deployment: str, champion: Version | None, line: Sequence[ChampionChange]
) -> ChampionChange | None:
    """Return the retirement in force, or None if there is a champion to retire.

    Raises :class:`PromotionRefused` if there never was a champion.
    """
    if champion is not None:
        return None
    if not line:
        raise PromotionRefused(f"{deployment} has no champion to retire: none was ever promoted")
    return line[-1]


def check_rollback(deployment: str, line: Sequence[ChampionChange], to: int | None) -> int:
    """Return the target of a rollback: ``to``, if it was ever champion, or the previous champion."""
    target = rollback_target(deployment, line) if to is None else to
    champions = {change.to_version for change in line if change.to_version is not None}
    if target not in champions:
        known = ", ".join(str(number) for number in sorted(champions)) or "none"
        raise PromotionRefused(
            f"version {target} of {deployment} never was champion (these were: {known}); "
            "a rollback restores an earlier champion; use promote for a new one"
        )
    return target


def rollback_target(deployment: str, line: Sequence[ChampionChange]) -> int:
    """Return the champion before the current one, after any number of rollbacks.

    Promotions and retirements form a stack; a rollback removes all entries above its target, and the result
    is the entry below the top. So two rollbacks in a row go two champions back instead of swapping the last
    two, and a rollback after a retirement restores the retired champion. An entry below a retirement needs an
    explicit ``to``.
    """
    changes: list[ChampionChange] = []
    for change in line:
        champions = [earlier.to_version for earlier in changes]
        if change.kind == ROLLBACK and change.to_version in champions:
            while changes[-1].to_version != change.to_version:
                changes.pop()
        else:
            changes.append(change)
    if len(changes) < 2:
        raise PromotionRefused(f"{deployment} has no earlier champion to go back to")
    before = changes[-2]
    if before.to_version is None:
        raise PromotionRefused(
            f"before version {changes[-1].to_version} {deployment} had no champion ({before}); to serve the "
            "frozen model again use retire, to go further back name the version (--to N)"
        )
    return before.to_version


def line_breaks(line: Sequence[ChampionChange]) -> list[str]:
    """Return sentences on breaks: revisions are not 1, 2, 3 … or do not start from the last champion."""
    problems = []
    champion: int | None = None
    for expected, change in enumerate(line, start=1):
        if change.revision != expected or change.from_version != champion:
            problems.append(
                f"the line breaks at change {change.revision}: it starts from version {change.from_version}, "
                f"but version {champion} was champion after change {expected - 1}"
            )
        champion = change.to_version
    return problems
