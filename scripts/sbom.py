"""Write the packages of the lock as a CycloneDX 1.6 document (``make dist``): python scripts/sbom.py OUT"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from slc_ops import __version__

LOCK = Path(__file__).parents[1] / "requirements.txt"


def sbom(lock: str) -> dict[str, Any]:
    """The document of a lock with hashes; the same lock and version give the same bytes."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "purl": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": f"https://pypi.org/project/{name}/{version}/",
                    "hashes": [{"alg": "SHA-256", "content": each} for each in re.findall(r"\w{64}", hashes)],
                }
            ],
        }
        for name, version, hashes in re.findall(
            r"^([\w.-]+)\S*==(\S+)(.*?)(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL
        )
    ]
    ours = {"type": "application", "bom-ref": "slc-ops", "name": "slc-ops", "version": __version__}
    licensed = {
        **ours,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": f"pkg:pypi/slc-ops@{__version__}",
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": licensed},
        "components": components,
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(sbom(LOCK.read_text()), indent=1) + "\n")
