"""The classes behind Kafka's scripts."""

from __future__ import annotations

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
BEFORE_4_4 = {"kafka-configs": "kafka.admin.ConfigCommand"}
BEFORE_4 = {
    **BEFORE_4_4,
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
}
BEFORE_3 = {
    **BEFORE_4,
    "kafka-console-consumer": "kafka.tools.ConsoleConsumer",
    "kafka-consumer-groups": "kafka.admin.ConsumerGroupCommand",
    "kafka-delete-records": "kafka.admin.DeleteRecordsCommand",
    "kafka-get-offsets": "kafka.tools.GetOffsetShell",
    "kafka-topics": "kafka.admin.TopicCommand",
}


def tool_class(tool: str, version: str) -> str:
    """The class of a script in a Kafka version; a class name is returned as it is."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    steps = (((3, 0), BEFORE_3), ((4, 0), BEFORE_4), ((4, 4), BEFORE_4_4))
    older = next((names for until, names in steps if numbers < until), {})
    return older.get(tool) or TOOLS.get(tool, tool)
