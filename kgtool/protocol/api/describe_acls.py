"""DescribeAcls (key 29): the ACLs that a filter matches; SECURITY_DISABLED without an authorizer.

v1 resource pattern types (KIP-290), v3 user resources (KIP-373). Kafka 4 removed v0.
"""

from __future__ import annotations

from kgtool.protocol.schema import Struct, array, int8, int16, int32, string


class AclDescription(Struct):
    principal: str = string("0+")
    host: str = string("0+")
    # AclOperation and AclPermissionType by number
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class Resource(Struct):
    # ResourceType: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    # PatternType: 3 literal, 4 prefixed
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+")


class Response(Struct, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[Resource] = array(Resource, "0+")


class Request(Struct, key=29, reply=Response, route="any", changes=False):
    # 1 in each of the numbers: any
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")
