"""Ed25519 signatures of the ledger's rows with the operator's key, if one is configured."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.errors import SettingsError
from slc_ops.settings.environment import RegistryVariables

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAKE = "openssl genpkey -algorithm ed25519 -out ledger.pem makes one"


def sign(hashed: str) -> str | None:
    """Sign an entry's hash with the key of ``SLC_OPS_LEDGER_KEY``; None without a key."""
    path = RegistryVariables.read().ledger_key
    return None if path is None else base64.b64encode(_private(path).sign(hashed.encode())).decode()


class Keys:
    """Public keys for checking signatures; ``given`` is True for files, False for the environment's key."""

    def __init__(self, keys: "Sequence[Ed25519PublicKey]", *, given: bool) -> None:
        self._keys = keys
        self.given = given

    @classmethod
    def read(cls, paths: Sequence[Path] = ()) -> "Keys | None":
        """Read these files, or the public half of ``SLC_OPS_LEDGER_KEY``; None without either."""
        if paths:
            return cls([_public(path) for path in paths], given=True)
        own = RegistryVariables.read().ledger_key
        return None if own is None else cls([_private(own).public_key()], given=False)

    def signed(self, hashed: str, signature: str) -> bool:
        """Return True if one of the keys made this signature."""
        from cryptography.exceptions import InvalidSignature

        for key in self._keys:
            try:
                key.verify(base64.b64decode(signature), hashed.encode())
            except (InvalidSignature, ValueError):
                continue
            return True
        return False


def _private(path: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(_bytes(path), password=None)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, Ed25519PrivateKey):
        raise SettingsError(
            f"SLC_OPS_LEDGER_KEY names {path}: no private Ed25519 key in PEM without a password; {_MAKE}"
        )
    return found


def _public(path: Path) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(_bytes(path))
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise SettingsError(
            f"{path} is not a public Ed25519 key in PEM; write it with openssl pkey -in KEY -pubout -out FILE"
        )
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the ledger's key {path} cannot be read: {error.strerror}; {_MAKE}") from None
