"""Train one backbone: Adam on the logistic loss, number of epochs chosen by AUC, checkpoints.

Window order and dropout of an epoch depend only on the seed and the epoch number. An interrupted run thus
resumes from its checkpoint to the same network, and the same seed gives the same numbers (on one machine,
with the same number of threads).
"""

import io
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import DamagedFile, FitError, OneClassError, SettingsError
from slc_ops.base.files import replacing
from slc_ops.evidence.auc import auc
from slc_ops.study.registry import Backbone
from slc_ops.study.sequences import (
    CALIBRATION,
    CHOICE,
    TEST,
    TRAIN,
    Ints,
    Sequences,
    batches,
    prediction_windows,
    training_windows,
)  # fmt: skip

Tell = Callable[[str], None]
ChooseEpoch = Literal["train", "calibration"]
PREDICTED_WINDOWS = 64


@dataclass(frozen=True)
class Settings:
    """Settings that all backbones of a study share. ``threads`` may change the last digits."""

    choose_epoch: ChooseEpoch = "train"
    threads: int = 1


class Batch(NamedTuple):
    """Tensors of shape windows × time; ``counts`` marks the scored rows."""

    skill: Any
    item: Any
    label: Any
    gap: Any
    counts: Any


@dataclass(frozen=True)
class Trained:
    """Logits of the calibration and test rows (NaN elsewhere), and the training history."""

    logit: NDArray[np.float64]
    epochs: list[dict[str, Any]]
    chosen: int
    key: str
    parameters: int


def train(
    sequences: Sequences, backbone: Backbone, seed: int, settings: Settings, directory: Path, tell: Tell
) -> Trained:
    """Choose the epoch, train on all of train, predict; resume from checkpoints in ``directory``.

    With ``choose_epoch="train"`` a first network, trained without the last tenth of each user's train rows,
    determines the best number of epochs on these; a new network is then trained for that number on all train
    rows and predicts. With ``"calibration"`` the network of the best epoch on calibration predicts.
    """
    task = _Task(sequences, backbone, seed, settings, tell)
    if settings.choose_epoch == "calibration":
        state = task.fit(directory / "network.pt", CHOICE, CALIBRATION)
        epochs, chosen, weights = state.epochs, state.chosen, state.best
    else:
        choice = task.fit(directory / "choice.pt", TRAIN, CHOICE)
        chosen = choice.chosen
        state = task.fit(directory / "network.pt", CHOICE, None, chosen)
        epochs, weights = choice.epochs + state.epochs, state.best
    network = task.network()
    network.load_state_dict(weights)
    logit = task.predict(network, CALIBRATION, TEST)
    parameters = sum(each.numel() for each in network.parameters())
    return Trained(logit, epochs, chosen, task.key, parameters)


class _Task:
    """One backbone with one seed on one log."""

    def __init__(
        self, sequences: Sequences, backbone: Backbone, seed: int, settings: Settings, tell: Tell
    ) -> None:
        import torch

        torch.set_num_threads(settings.threads)
        self.sequences, self.backbone, self.seed, self.tell = sequences, backbone, seed, tell
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        kind = {"backbone": asdict(backbone), "seed": seed, "choose_epoch": settings.choose_epoch}
        self.key = digest_json({"data": sequences.digest(), **kind})

    def network(self) -> Any:
        """Return the network with the initial weights of the seed."""
        import torch

        torch.manual_seed(self.seed)
        return self.backbone.network(self.sequences.skills, self.sequences.items).to(self.device)

    def fit(
        self, checkpoint: Path, last_part: int, chosen_on: int | None, epochs: int | None = None
    ) -> "_Progress":
        """Train on the parts up to ``last_part`` until AUC on ``chosen_on`` falls, or for ``epochs``."""
        import torch

        backbone = self.backbone
        network = self.network()
        optimiser = torch.optim.Adam(network.parameters(), lr=backbone.rate)
        state = _Progress.resume(checkpoint, self.key, network, optimiser, self.tell)
        learning = training_windows(self.sequences.spans(TRAIN, last_part), backbone.length)
        while not state.finished(backbone, epochs):
            epoch, begun = len(state.epochs) + 1, time.process_time()
            loss = self._one_epoch(network, optimiser, learning, epoch)
            if not np.isfinite(loss):
                raise FitError(f"{backbone.name}: the loss of epoch {epoch} is {loss}; its rate is too large")
            area = None if chosen_on is None else self._area(network, chosen_on)
            cpu = time.process_time() - begun
            state.add({"epoch": epoch, "loss": loss, "auc": area, "cpu_seconds": cpu}, network)
            state.save(checkpoint, self.key, network, optimiser)
            shown = "all of train" if area is None else f"AUC {area:.4f}"
            run = f"{backbone.name} seed {self.seed} epoch {epoch}"
            self.tell(f"{run}: loss {loss:.4f}, {shown}, {cpu:.0f} s of CPU")
        return state

    def _area(self, network: Any, part: int) -> float:
        logit = self.predict(network, part, part)
        rows = np.flatnonzero(np.isfinite(logit))
        area = auc(self.sequences.label[rows].astype(np.int8), logit[rows]).value
        if area is None:
            raise OneClassError(
                "the rows that choose the epoch have one label only; a study needs more users"
            )
        return area

    def _one_epoch(self, network: Any, optimiser: Any, windows: Ints, epoch: int) -> float:
        import torch

        torch.manual_seed(self.seed * 1000 + epoch)
        network.train()
        total = rows = 0.0
        penalty = getattr(network, "penalty", None)
        size = self.backbone.windows_per_step(self.sequences.skills)
        for chosen in batches(windows, size, np.random.default_rng([self.seed, epoch])):
            batch = self._batch(chosen)
            score = network(batch)[batch.counts]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                score, batch.label[batch.counts].to(score.dtype)
            )
            optimiser.zero_grad(set_to_none=True)
            (loss if penalty is None else loss + penalty()).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
            total, rows = total + float(loss.detach()) * len(score), rows + len(score)
        return total / rows

    def predict(self, network: Any, first_part: int, last_part: int) -> NDArray[np.float64]:
        """Return the logits of the rows in these parts; NaN elsewhere."""
        import torch

        spans = self.sequences.spans(first_part, last_part)
        windows = prediction_windows(self.sequences, spans, self.backbone.length)
        network.eval()
        found = np.full(len(self.sequences.label), np.nan)
        with torch.inference_mode():
            for chosen in batches(windows, PREDICTED_WINDOWS):
                batch = self._batch(chosen)
                score = network(batch)[batch.counts].double().cpu().numpy()
                found[np.concatenate([np.arange(at, end) for _, end, at in chosen])] = score
        return found

    def _batch(self, windows: Ints) -> Batch:
        """Return the rows of some windows, padded at the end to the longest."""
        import torch

        begin, end, counted = windows.T
        place = begin[:, None] + np.arange((end - begin).max())
        inside = place < end[:, None]
        place = np.where(inside, place, begin[:, None])
        rows = self.sequences
        skill, item, label, gap = (
            torch.from_numpy(np.where(inside, column[place], 0)).to(self.device)
            for column in (rows.skill, rows.item, rows.label, rows.gap)
        )
        counts = torch.from_numpy(inside & (place >= counted[:, None])).to(self.device)
        return Batch(skill, item, label, gap, counts)


@dataclass
class _Progress:
    """The completed epochs and the best network among them."""

    epochs: list[dict[str, Any]]
    best: dict[str, Any]

    @property
    def chosen(self) -> int:
        """The first epoch with the best AUC."""
        return int(max(self.epochs, key=lambda each: (each["auc"] or 0.0, -each["epoch"]))["epoch"])

    def finished(self, backbone: Backbone, epochs: int | None) -> bool:
        done = len(self.epochs)
        if epochs is not None:
            return done >= epochs
        return done >= backbone.epochs or (done > 0 and done - self.chosen >= backbone.patience)

    def add(self, epoch: dict[str, Any], network: Any) -> None:
        self.epochs.append(epoch)
        if epoch["auc"] is None or self.chosen == epoch["epoch"]:
            self.best = {name: value.detach().clone() for name, value in network.state_dict().items()}

    def save(self, path: Path, key: str, network: Any, optimiser: Any) -> None:
        import torch

        state = {
            "key": key, "epochs": self.epochs, "best": self.best,
            "network": network.state_dict(), "optimiser": optimiser.state_dict(),
        }  # fmt: skip
        content = io.BytesIO()  # written by Python, whose errors report a full disk
        torch.save(state, content)
        with replacing(path) as temporary:
            temporary.write_bytes(content.getbuffer())

    @classmethod
    def resume(cls, path: Path, key: str, network: Any, optimiser: Any, tell: Tell) -> "_Progress":
        import torch

        if not path.exists():
            return cls([], {})
        try:
            state = torch.load(path, weights_only=True, map_location=next(network.parameters()).device)
            found, epochs, best = state["key"], state["epochs"], state["best"]
        except Exception as error:
            raise DamagedFile(path, f"no checkpoint of a study; remove it to begin again ({error})") from None
        if found != key:
            raise SettingsError(
                f"{path} is a checkpoint of other data, sizes or settings; "
                "give another --out, or remove it to begin again"
            )
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        tell(f"resumes after epoch {len(epochs)} of {path}")
        return cls(epochs, best)
