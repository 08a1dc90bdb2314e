"""SaslHandshake (key 17): choose the SASL mechanism.

v1 wraps the tokens that follow in SaslAuthenticate requests (KIP-152); v0 sends them bare. Never
flexible (KAFKA-9577). UNSUPPORTED_SASL_MECHANISM (33) comes with the mechanisms that are enabled.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int16, string


class Response(Struct, versions="0-1"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")


class Request(Struct, key=17, reply=Response, route="any", changes=False):
    mechanism: str = string("0+")
