"""The classes behind Kafka's scripts."""

from __future__ import annotations

_CLASSES = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
}
_SINCE_4 = {
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
}


def tool_class(tool: str, version: str) -> str:
    """The class of a script's name in a Kafka version; a class name stays what it is."""
    newer = {} if version.startswith("3.") else _SINCE_4
    return newer.get(tool) or _CLASSES.get(tool, tool)
