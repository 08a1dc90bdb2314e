"""The group coordinator of a real broker, without the broker: Kafka's own replay and expiration.

``GroupCoordinatorShard`` is what a broker of the new generation runs per partition of
``__consumer_offsets``. It is fed the bytes of a log, then told to run one expiration check at a
time of our choosing; what it returns are the tombstones that the broker would append.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.java_gateway import JVMView
from py4j.protocol import DEFAULT_JVM_ID, Py4JJavaError

from kgtool.protocol.plan import encode
from kgtool.protocol.schema import Struct
from kgtool.records import Record, decode
from kgtool.records.control import Marker
from kgtool.records.group_metadata import GroupMetadataValue
from kgtool.retention.history import Entry, Key, Stored
from tests.protocol.jvm import kafka_classes


class RefusedError(Exception):
    """A record for a group that the coordinator does not have, or that is of another type."""


class _Names(NamedTuple):
    """Where a version keeps its classes."""

    runtime: str
    serde: str


NAMES = {
    "4.4.0": _Names(
        "org.apache.kafka.coordinator.common.runtime",
        "org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde",
    ),
    "3.9.1": _Names(
        "org.apache.kafka.coordinator.group.runtime",
        "org.apache.kafka.coordinator.group.CoordinatorRecordSerde",
    ),
}


class Coordinators:
    """Makes coordinators of one Kafka version."""

    def __init__(self, version: str, common: Any) -> None:
        self.version = version
        # Packages below org.apache.kafka.common are all that tests.protocol.jvm itself offers.
        self.jvm = JVMView(common._gateway_client, "coordinators", DEFAULT_JVM_ID)
        self.names = NAMES[version]
        self.group = self.jvm.org.apache.kafka.coordinator.group
        self.serde = self._class(self.names.serde).getDeclaredConstructor(None).newInstance(None)
        self.clock = self.jvm.java.util.concurrent.atomic.AtomicReference(2**40)
        self.time = self._proxy("org.apache.kafka.common.utils.Time", self._reading(self.clock))
        self.metrics = self.jvm.org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics()
        self.commit = self.jvm.org.apache.kafka.common.requests.TransactionResult.COMMIT
        self.abort = self.jvm.org.apache.kafka.common.requests.TransactionResult.ABORT
        self._count = 0

    def coordinator(self, retention_minutes: int) -> Coordinator:
        """A coordinator that has loaded nothing yet."""
        self._count += 1
        kafka = self.jvm.org.apache.kafka
        config = self._config(retention_minutes)
        utils = kafka.common.utils
        log = (utils if self.version == "3.9.1" else utils.internals).LogContext()
        builder = (
            self._builder(config)
            .withLogContext(log)
            .withSnapshotRegistry(kafka.timeline.SnapshotRegistry(log))
            .withTime(self.time)
            .withTimer(self._nothing(f"{self.names.runtime}.CoordinatorTimer"))
            .withCoordinatorMetrics(self.metrics)
            .withTopicPartition(kafka.common.TopicPartition("__consumer_offsets", self._count))
        )
        return Coordinator(self, builder.build())

    def _config(self, retention_minutes: int) -> Any:
        config = self.group.GroupCoordinatorConfig
        if self.version == "3.9.1":
            names = (
                "GROUP_COORDINATOR",
                "NEW_GROUP",
                "OFFSET_MANAGEMENT",
                "CONSUMER_GROUP",
                "SHARE_GROUP",
            )
            definitions = [getattr(config, f"{name}_CONFIG_DEF") for name in names]
        else:
            definitions = [config.CONFIG_DEF]
        return config(self._settings(definitions, retention_minutes))

    def _settings(self, definitions: list[Any], retention_minutes: int = 1) -> Any:
        config = self.jvm.org.apache.kafka.common.config
        union = config.ConfigDef()
        for definition in definitions:
            for key in definition.configKeys().values():
                union.define(key)
        props = self.jvm.java.util.HashMap()
        props.put("offsets.retention.minutes", str(retention_minutes))
        return config.AbstractConfig(union, props)

    def _builder(self, config: Any) -> Any:
        shard = self.group.GroupCoordinatorShard.Builder
        if self.version == "3.9.1":
            return shard(config)
        share = self.group.modern.share.ShareGroupConfig
        settings = self._settings([self.group.GroupCoordinatorConfig.CONFIG_DEF, share.CONFIG_DEF])
        builder = shard(config, self.group.GroupConfigManager(config, share(settings)))
        builder.withAuthorizerPlugin(self.jvm.java.util.Optional.empty())
        builder.withExecutor(self._nothing(f"{self.names.runtime}.CoordinatorExecutor"))
        return builder

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)

    def _nothing(self, interface: str) -> Any:
        """An object that does nothing, whatever it is asked."""
        constant = self.jvm.java.lang.invoke.MethodHandles.constant
        return self._proxy(interface, constant(self._class("java.lang.Object"), None))

    def _reading(self, reference: Any) -> Any:
        invoke, any_object = self.jvm.java.lang.invoke, self._class("java.lang.Object")
        lookup = invoke.MethodHandles.publicLookup()
        getter = invoke.MethodType.methodType(any_object)
        return lookup.findVirtual(reference.getClass(), "get", getter).bindTo(reference)

    def _proxy(self, interface: str, answer: Any) -> Any:
        """An object whose every method gives ``answer`` (a method handle without parameters)."""
        lang = self.jvm.java.lang
        parameters = self.jvm.java.util.ArrayList()
        for name in ("java.lang.Object", "java.lang.reflect.Method", "[Ljava.lang.Object;"):
            parameters.add(self._class(name))
        handle = lang.invoke.MethodHandles.dropArguments(answer, 0, parameters)
        handler = self._class("java.lang.reflect.InvocationHandler")
        interfaces = lang.reflect.Array.newInstance(self._class("java.lang.Class"), 1)
        interfaces[0] = self._class(interface)
        return lang.reflect.Proxy.newProxyInstance(
            interfaces[0].getClassLoader(),
            interfaces,
            lang.invoke.MethodHandleProxies.asInterfaceInstance(handler, handle),
        )

    def expired_in_scala(
        self, metadata: Record | None, offsets: dict[Key, Stored], now_ms: int, retention_ms: int
    ) -> set[Key]:
        """What 3.9's default coordinator removes of a group: its last record, and its offsets."""
        scala, java = self.jvm.scala, self.jvm.org.apache.kafka.common
        home = self.jvm.kafka.coordinator.group
        # A group without a record is made like one whose record says nothing.
        version, value = (3, GroupMetadataValue(protocol=None, leader=None))
        if metadata is not None:
            version, value = metadata.version or 0, metadata.value
        raw = self._buffer(version, value)
        group = home.GroupMetadataManager.readGroupMessageValue("g", raw, self.time)
        loaded = scala.collection.mutable.HashMap()
        for key, stored in offsets.items():
            version = 3 if stored.committed.expire_timestamp_ms is None else 1
            value = home.GroupMetadataManager.readOffsetMessageValue(
                self._buffer(version, stored.value)
            )
            position = scala.Option.apply(stored.position)
            loaded.put(
                java.TopicPartition(key.topic, key.partition),
                home.CommitRecordMetadataAndOffset(position, value),
            )
        group.initializeOffsets(loaded, scala.collection.immutable.HashMap())
        expired = group.removeExpiredOffsets(now_ms, retention_ms)
        return {
            key
            for key in offsets
            if expired.contains(java.TopicPartition(key.topic, key.partition))
        }

    def _buffer(self, version: int, value: Struct) -> Any:
        return self.jvm.java.nio.ByteBuffer.wrap(
            struct.pack(">h", version) + encode(value, version)
        )


class Coordinator:
    """One partition's coordinator."""

    def __init__(self, home: Coordinators, shard: Any) -> None:
        self.home = home
        self.shard = shard
        self.wrap = home.jvm.java.nio.ByteBuffer.wrap

    def replay(self, entry: Entry) -> None:
        """As when the partition is loaded, or right after an append."""
        record = entry.record
        if isinstance(record, Marker):
            result = self.home.commit if record.type == 1 else self.home.abort
            self.shard.replayEndTransactionMarker(entry.producer_id, 0, result)
            return
        assert isinstance(record, Record)
        key = struct.pack(">h", record.type) + encode(record.key, 0)
        value = None
        if record.value is not None:
            assert record.version is not None
            body = struct.pack(">h", record.version) + encode(record.value, record.version)
            value = self.wrap(body)
        found = self.home.serde.deserialize(self.wrap(key), value)
        try:
            self.shard.replay(entry.offset, entry.producer_id, 0, found)
        except Py4JJavaError as exc:
            message = str(exc.java_exception.getMessage())
            if re.search(r"roup \S+ (not found|is not a consumer group)\.$", message):
                raise RefusedError(message) from exc
            raise

    def check(self, now_ms: int) -> list[Record]:
        """One run of the expiration task: the tombstones that it would append."""
        self.home.clock.set(now_ms)
        tombstones = []
        for record in self.shard.cleanupGroupMetadata().records():
            assert self.home.serde.serializeValue(record) is None
            decoded = decode(bytes(self.home.serde.serializeKey(record)), None)
            assert isinstance(decoded, Record)
            tombstones.append(decoded)
        return tombstones


@contextmanager
def coordinators(version: str) -> Iterator[Coordinators]:
    """Start a JVM with the classes of that version."""
    with kafka_classes(version) as kafka:
        yield Coordinators(version, kafka.common)
