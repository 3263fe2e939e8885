"""Which images an installation runs: by digest, by exact version, or by a name that may change."""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from slc_ops.base.errors import SettingsError
from slc_ops.production.compose import interpolate

_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_EXACT = re.compile(r"(?:[^:@\s]+(?::[0-9]+/[^:@\s]+)?):v?[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:[.-][A-Za-z0-9.-]+)?")


def is_pinned(image: str) -> bool:
    """Whether an image is named by its content: the same bytes for ever.

    Raises :class:`~slc_ops.base.errors.SettingsError` for a name that floats (no tag, ``latest``, a major
    version), which is another image next week.

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
    """Every image from elsewhere that the compose file runs or builds upon, by service."""
    services = yaml.safe_load(compose_file.read_text(encoding="utf-8"))["services"]
    found = {}
    for name, entry in services.items():
        if "build" not in entry:
            found[name] = interpolate(entry["image"], settings)
        else:
            found["slc-ops (built upon)"] = interpolate(entry["build"]["args"]["PYTHON_IMAGE"], settings)
    return found
