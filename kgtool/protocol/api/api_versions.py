"""ApiVersions (key 18): the APIs of a broker, the first request on every connection.

v1 throttle time, v3 client software name and version, tagged feature levels (KIP-511, KIP-584), v4
allows a supported feature's minimum to be 0 (KAFKA-17011), v5 names the cluster and the node that
the client means; any other refuses it with REBOOTSTRAP_REQUIRED (129, KIP-1242). The header of the
reply is never flexible. A broker that does not know the version answers in v0 with
UNSUPPORTED_VERSION (35) and, from 2.4 on, with the range that it does know.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, boolean, int16, int32, int64, string


class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeature(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeature(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class Response(Struct, versions="0-5", flexible="3+"):
    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeature] = array(
        SupportedFeature, "3+", tag=0, ignorable=True
    )
    # -1: no features are finalized, and finalized_features says nothing
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeature] = array(
        FinalizedFeature, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)


class Request(Struct, key=18, reply=Response, route="any", changes=False):
    # both must match [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?, else INVALID_REQUEST (42)
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    # null and -1: not known yet
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)
