"""One verified parameter set in memory; never changed, only replaced."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from slc_ops.numerics.curves import Affine
from slc_ops.parameters import storage
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.counts import Counts
from slc_ops.serving.pointer import Named, Pointer, Retired


@dataclass(frozen=True)
class Snapshot:
    """A parameter set, its version, and its load time."""

    parameters: ParameterSet
    pointer: Named | None
    cached: bool
    loaded_at: datetime
    counts: Counts

    @classmethod
    def read(
        cls,
        directory: Path,
        pointer: Pointer | None = None,
        *,
        cached: bool = False,
        deployment: str | None = None,
    ) -> "Snapshot":
        """Read and verify a directory: schema version, deployment, digests, golden vectors."""
        parameters = storage.read(directory, deployment=deployment, served=True)
        pa.default_memory_pool().release_unused()  # reading needs more memory than the result
        counts = Counts(parameters.provenance.backbone_version, tuple(parameters.effects))
        return cls(parameters, pointer, cached, datetime.now(UTC), counts)

    @classmethod
    def frozen(cls, retired: Retired, *, cached: bool = False) -> "Snapshot":
        """Return the frozen model itself, after its champion was retired: p = σ(logit)."""
        return cls(ParameterSet("base", Affine()), retired, cached, datetime.now(UTC), Counts())

    @property
    def rule(self) -> str:
        """The rule for rows of another backbone: ``frozen``, ``refuse`` or ``serve``."""
        return self.parameters.provenance.on_backbone_mismatch or "frozen"

    @property
    def version(self) -> int | None:
        """The registry's version; None for a set from a directory, and for the frozen model."""
        return None if self.pointer is None else self.pointer.version

    def as_dict(self) -> dict[str, Any]:
        """Return the serving state for :meth:`Corrector.health`."""
        named = self.pointer
        window = self.parameters.provenance.window if named is None else named.window
        return {
            "serves": "frozen" if isinstance(named, Retired) else "correction",
            "version": self.version,
            "revision": None if named is None else named.revision,
            "method": self.parameters.method,
            "backbone_version": self.parameters.provenance.backbone_version,
            "on_backbone_mismatch": self.rule,
            "window": None if window is None else window.as_dict(),
            "loaded_at": self.loaded_at.isoformat(),
            "from_cache": self.cached,
            **self.counts.as_dict(),
        }
