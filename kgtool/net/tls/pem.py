"""PEM texts as people have them: in files, or in one line of a properties file.

A continued line of a properties file loses its line breaks; Kafka's PemStore does not mind, but
OpenSSL does. So blocks are taken out and written anew.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(
    r"-----BEGIN\s+([A-Z0-9 ]+?)\s*-----\s*(.*?)\s*-----END\s+\1\s*-----", re.DOTALL
)
_BLANKS = re.compile(r"\s+")
_WIDTH = 64


class Pem(NamedTuple):
    """The blocks of a PEM text, each as OpenSSL wants it."""

    certificates: tuple[str, ...]
    key: str | None

    @property
    def is_encrypted(self) -> bool:
        """Whether the key needs a password."""
        return self.key is not None and "ENCRYPTED" in self.key


def read_pem(text: str) -> Pem:
    """Find the certificates and the first private key of a text, whatever else is in it."""
    certificates, keys = [], []
    for label, body in _BLOCK.findall(text):
        if label in ("CERTIFICATE", "X509 CERTIFICATE"):
            certificates.append(_block("CERTIFICATE", body))
        elif label.endswith("PRIVATE KEY"):
            keys.append(_block(label, body))
    return Pem(tuple(certificates), keys[0] if keys else None)


def _block(label: str, body: str) -> str:
    # A key of OpenSSL's older form has headers, which need their line breaks.
    if ":" not in body:
        packed = _BLANKS.sub("", body)
        body = "\n".join(packed[at : at + _WIDTH] for at in range(0, len(packed), _WIDTH))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"
