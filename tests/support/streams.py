"""A streams group without Kafka Streams: its heartbeats, written by kio."""

from __future__ import annotations

import datetime
import uuid
from types import TracebackType
from typing import Any

from kio.schema.streams_group_heartbeat.v0 import request as schema
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse

from tests.support.clients import wait_for
from tests.support.kio_connection import KioConnection

LEAVE = -1


def _topic_info(name: str) -> Any:
    return schema.TopicInfo(
        name=name,
        partitions=0 if name.endswith("-changelog") else 2,
        replication_factor=1,
        topic_configs=(),
    )


def _subtopology(name: str, **parts: Any) -> Any:
    empty: dict[str, Any] = dict.fromkeys(
        (
            "source_topics",
            "source_topic_regex",
            "state_changelog_topics",
            "repartition_sink_topics",
            "repartition_source_topics",
            "copartition_groups",
        ),
        (),
    )
    return schema.Subtopology(subtopology_id=name, **(empty | parts))


class StreamsMember:
    """One member that reads topics in one subtopology; a context manager, which leaves at its end.

    It takes whatever tasks it is given. The broker makes its internal topics: ``repartitions`` are
    read by a second subtopology, with ``changelogs``.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: list[str],
        *,
        topology_epoch: int = 0,
        client_id: str = "streamer",
        changelogs: tuple[str, ...] = (),
        repartitions: tuple[str, ...] = (),
    ) -> None:
        self._broker = KioConnection(bootstrap, client_id)
        self._group, self._topics = group, topics
        self._topology_epoch = topology_epoch
        self._changelogs, self._repartitions = changelogs, repartitions
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.active: tuple[Any, ...] = ()
        self.status: tuple[str, ...] = ()

    def __enter__(self) -> StreamsMember:
        return self.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.beat(LEAVE)
        self._broker.close()

    def join(self) -> StreamsMember:
        """Join, and go on until the tasks are there."""
        self.beat(0)
        wait_for(lambda: self.beat() or self.active, f"tasks of {self._group}")
        self.beat()
        return self

    def beat(self, epoch: int | None = None) -> None:
        """Send one heartbeat; the first one has the topology."""
        request = self._heartbeat(self.epoch if epoch is None else epoch)
        reply = self._broker.ask(request, StreamsGroupHeartbeatResponse)
        assert reply.error_code == 0, (reply.error_code, reply.error_message)
        self.epoch = reply.member_epoch
        self.status = tuple(one.status_detail for one in reply.status or ())
        if reply.active_tasks is not None:
            self.active = tuple((one.subtopology_id, one.partitions) for one in reply.active_tasks)

    def _heartbeat(self, epoch: int) -> Any:
        is_first = epoch == 0
        parts = [_subtopology("0", source_topics=tuple(self._topics))]
        if self._repartitions:
            sinks = {"repartition_sink_topics": self._repartitions}
            parts = [_subtopology("0", source_topics=tuple(self._topics), **sinks)]
            inner = tuple(map(_topic_info, self._repartitions))
            stores = tuple(map(_topic_info, self._changelogs))
            parts.append(
                _subtopology("1", repartition_source_topics=inner, state_changelog_topics=stores)
            )
        tasks = tuple(
            schema.TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in self.active
        )
        return schema.StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=datetime.timedelta(seconds=60 if is_first else 0, milliseconds=0)
            if is_first
            else datetime.timedelta(milliseconds=-1),
            topology=schema.Topology(epoch=self._topology_epoch, subtopologies=tuple(parts))
            if is_first
            else None,
            active_tasks=tasks,
            standby_tasks=(),
            warmup_tasks=(),
            process_id="process-1" if is_first else None,
            user_endpoint=None,
            client_tags=() if is_first else None,
            task_offsets=None,
            task_end_offsets=None,
            shutdown_application=False,
        )
