"""SaslAuthenticate (key 36): one token of the SASL exchange, and the server's answer to it.

v1 session lifetime for re-authentication (KIP-368).
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, bytestring, int16, int64, string


class Response(Struct, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = bytestring("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)


class Request(Struct, key=36, reply=Response, route="any", changes=False):
    auth_bytes: bytes = bytestring("0+")
