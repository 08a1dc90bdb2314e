"""``GroupAdmin``: consumer groups and their committed offsets, from Python.

Every method is one of kgtool's commands without the printing. What fails for one group or
partition is a value in the result (an ``ItemError`` in an ``error`` field, or a ``KgError`` in the
place of an offset) and does not hide the others; what concerns the whole is raised as ``KgError``:
``NetworkError`` where no broker answers, ``AuthenticationError``, ``UsageError``. Times are
milliseconds since the epoch and say so in their names; offsets are those of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kgtool.api import arguments
from kgtool.api.arguments import Goal, Topics
from kgtool.api.cleanup import CleanupMethods
from kgtool.api.connection import warn
from kgtool.api.reads import ReadMethods
from kgtool.api.restore import RestoreMethods
from kgtool.api.retention import RetentionMethods
from kgtool.changes.journal.journal import REMOVE_MEMBERS
from kgtool.clock import now_ms
from kgtool.errors import KgError, UsageError
from kgtool.model import (
    CommittedOffset,
    GroupDeletion,
    GroupOffsetDeletions,
    ItemError,
    TopicPartition,
)

if TYPE_CHECKING:
    from kgtool.changes.driver import Kind
    from kgtool.changes.groups.members import MemberRemoval
    from kgtool.changes.kinds.keep import GroupKeep
    from kgtool.changes.plan import GroupT
    from kgtool.changes.reset.targets import GroupReset


class GroupAdmin(ReadMethods, RestoreMethods, CleanupMethods, RetentionMethods):
    """A connection to one cluster; a context manager.

    Threads can share it: calls are made one after the other. A forked process makes its own
    connections. Nothing is sent before the first call. On a protected cluster changes take its id
    as ``confirm``, and a policy holds here too (``POLICY_REFUSED``).

    Changes are recorded in the journal that ``history()`` and ``kgtool history`` show, and that
    ``undo()`` and ``kgtool undo`` revert.

    :param bootstrap_server: ``"host:port,…"``; without it, a context or the environment variable
        ``KGTOOL_BOOTSTRAP_SERVER`` has to name the cluster.
    :param command_config: a Java properties file.
    :param properties: Java client properties, as they would stand in such a file. A
        ``UserWarning`` names those, here or there, that look like a typo or are not used. A login
        that is not among them is taken from the JAAS file that ``KAFKA_OPTS`` names.
    :param context: a profile of ``kgtool context``.
    :param timeout_ms: how long each call may take, in milliseconds.
    :param journal: the folder of the journal, if not the one of the commands.
    :param reason: why things are changed; kept in the journal.
    :param confirm: the id of the cluster that may be changed though it is protected.
    :raises UsageError: nothing names a cluster.
    :raises ConfigError: a file or property can't be used.
    """

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        create: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> GroupReset:
        """Set a group's offsets to exactly these; read back, each partition with its outcome.

        An ``int`` keeps the current metadata and takes the leader epoch of the log; a
        ``CommittedOffset`` brings its own. An offset outside of the log fails. The group must have
        no members (NON_EMPTY_GROUP, 68). Needs READ on the group and the topics.

        :param create: create the group if it does not exist.
        :param force: also where a transaction is pending.
        """
        from kgtool.changes.kinds.reset_offsets import ResetOffsets
        from kgtool.changes.reset.targets import ResetRequest, Strategy

        numbers = {at: arguments.number(at, value) for at, value in offsets.items()}
        strategy = Strategy("from-file", offsets={group: numbers})
        request = ResetRequest((group,), strategy, None, create, force)
        kind = ResetOffsets(request, partial(arguments.exact, offsets=offsets))
        flags = {"force": force, "create": create, "from-file": True, "to-offset": True}
        (done,) = self._make("commit_offsets", kind, [group], dry_run, **flags)
        return done

    def reset_offsets(
        self,
        groups: Iterable[str],
        to: Goal | None = None,
        *,
        shift_by: int | None = None,
        like: str | None = None,
        topics: Topics | None = None,
        create: bool = False,
        force: bool = False,
        all_or_nothing: bool = False,
        dry_run: bool = False,
    ) -> list[GroupReset]:
        """Reset groups that have no members, as ``kgtool reset-offsets --execute`` does.

        Targets outside of the log are clamped to it; ``clamp`` in the row says so. What can't be
        reset has its ``error``; the rest is done and read back.

        :param to: ``"earliest"``, ``"latest"``, ``"current"``, an offset, or a ``datetime`` (the
            first record at or after it).
        :param shift_by: instead of ``to``: so many records forwards, or back.
        :param like: instead of ``to``: the offsets of another group.
        :param topics: only these (default: every partition with a committed offset).
        :param all_or_nothing: reset nothing if one of the offsets can't be reset. A later failure
            does not revert the rest.
        :raises UsageError: not exactly one of the three was given.
        """
        from kgtool.changes.kinds.reset_offsets import ResetOffsets
        from kgtool.changes.reset.targets import ResetRequest

        strategy = arguments.strategy(to, shift_by, like)
        scope = None if topics is None else tuple(arguments.specs(topics))
        names = arguments.names(groups)
        kind = ResetOffsets(ResetRequest(tuple(names), strategy, scope, create, force))
        return self._make(
            "reset_offsets",
            kind,
            names,
            dry_run,
            all_or_nothing=all_or_nothing,
            force=force,
            create=create,
            all_topics=topics is None and like is None,
            topic=topics is not None,
            **{strategy.kind: True},
        )

    def _make(
        self, operation: str, kind: Kind[GroupT], groups: list[str], dry_run: bool, **flags: bool
    ) -> list[GroupT]:
        """Make a change, or return what it would do; ``flags`` are the command's options."""
        is_all = flags.get("all_or_nothing", False)
        with (
            self._call() as session,
            self._change(session, operation, None, group=True, **flags) as change,
        ):
            return self._carry_out(session, change, kind, groups, dry_run, all_or_nothing=is_all)

    def delete_groups(
        self,
        groups: Iterable[str],
        *,
        force: bool = False,
        internal_topics: bool = False,
        all_or_nothing: bool = False,
        dry_run: bool = False,
    ) -> list[GroupDeletion]:
        """Delete groups that have no members, with all their offsets (KIP-229).

        Needs DELETE on the groups. Share, streams and Connect groups only with ``force``, and
        groups with offsets that this login may not see. Where that is unknown, a
        ``UserWarning`` says what ``undo`` does not cover.

        :param internal_topics: also the internal topics of streams groups (``topics`` of each
            result), which ``undo`` does not restore. Needs DELETE on the topics.
        :param all_or_nothing: delete nothing if one of the groups can't be deleted. A later
            failure does not revert the rest.
        """
        from kgtool.changes.hidden_offsets import HiddenOffsets
        from kgtool.changes.kinds.delete_groups import DeleteGroups

        names = arguments.names(groups)
        hidden = HiddenOffsets(names, warn, refuse=not force)
        kind = DeleteGroups(names, force=force, hidden=hidden, internal_topics=internal_topics)
        return self._make(
            "delete_groups",
            kind,
            names,
            dry_run,
            all_or_nothing=all_or_nothing,
            force=force,
            internal_topics=internal_topics,
        )

    def delete_offsets(
        self,
        group: str,
        topics: Topics,
        *,
        force: bool = False,
        all_or_nothing: bool = False,
        dry_run: bool = False,
    ) -> GroupOffsetDeletions:
        """Delete committed offsets of a group, an active one too (OffsetDelete, KIP-496).

        A topic that a member subscribes to is refused (GROUP_SUBSCRIBED_TO_TOPIC, 86). Needs
        DELETE on the group and READ on the topics.

        :param force: also where a transaction is pending, and in Connect groups.
        :param all_or_nothing: delete nothing if one of the offsets can't be deleted. A later
            failure does not revert the rest.
        """
        from kgtool.changes.kinds.delete_offsets import DeleteOffsets

        asks_broker = not (dry_run or all_or_nothing)
        kind = DeleteOffsets({group: arguments.specs(topics)}, force, asks_broker=asks_broker)
        (done,) = self._make(
            "delete_offsets",
            kind,
            [group],
            dry_run,
            all_or_nothing=all_or_nothing,
            force=force,
            topic=True,
        )
        return done

    def alter_configs(
        self, group: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> dict[str, ItemError | None]:
        """Set configs of a group (None: unset); return the error of each, None where it is set.

        The controller checks all of them first; if one is refused, none is changed.
        Needs ALTER_CONFIGS on the group, and Kafka ≥ 4.0 (KIP-848).

        :raises KgError: the current configs can't be read; nothing was changed.
        """
        from kgtool.changes.groups.configs import describe_group_configs
        from kgtool.changes.kinds.alter_configs import AlterConfigs

        flags = {
            "group": True,
            "alter": True,
            "add_config": any(value is not None for value in changes.values()),
            "delete_config": None in changes.values(),
        }
        with self._call() as session, self._change(session, "configs", None, **flags) as change:
            now = session.run(describe_group_configs(session.cluster, [group]))[group]
            if isinstance(now, KgError):
                raise now
            for name in changes:
                if name not in now:
                    raise UsageError(f"There is no config '{name}' of groups.")
            kind = AlterConfigs({group: changes})
            (done,) = self._carry_out(session, change, kind, [group], dry_run, all_or_nothing=True)
        return {item.name: item.error for item in done.rows}

    def keep(
        self,
        groups: Iterable[str],
        *,
        join: bool = False,
        all_or_nothing: bool = False,
        dry_run: bool = False,
    ) -> list[GroupKeep]:
        """Keep committed offsets for another full retention (``kgtool keep``).

        Offsets whose clock runs from their commit are committed again, unchanged: those of
        standalone consumers and of KIP-848 groups (KIP-211). Times in the rows are ms since the
        epoch. Needs READ on the groups, their topics and ``__consumer_offsets``.

        :param join: join and leave classic groups whose clock runs from when they became Empty.
        :param all_or_nothing: keep nothing if one of the offsets can't be kept. A later failure
            does not revert the rest.
        """
        from kgtool.changes.kinds.keep import Keep

        kind, names = Keep(now_ms, join=join), arguments.names(groups)
        return self._make("keep", kind, names, dry_run, all_or_nothing=all_or_nothing, join=join)

    def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        client_ids: Iterable[str] = (),
        all_members: bool = False,
        all_or_nothing: bool = False,
        dry_run: bool = False,
    ) -> list[MemberRemoval]:
        """Remove members from a group: stuck ones, and departed static ones (KIP-345, KIP-571).

        A running client rejoins by itself. This can't be undone; the journal lists the removed
        members. Needs READ on the group.

        :param instance_ids: static members, by their ``group.instance.id``.
        :param all_or_nothing: remove no one if one of them has left. A later failure does not
            revert the rest.
        :raises KgError: the group does not exist or is of a type whose members can't be removed;
            with ``all_or_nothing`` also: there is no such member.
        """
        from kgtool.changes.groups.members import MemberChoice
        from kgtool.changes.kinds.remove_members import RemoveMembers

        choice = MemberChoice(
            tuple(arguments.names(instance_ids, "instance_ids")),
            tuple(arguments.names(member_ids, "member_ids")),
            tuple(arguments.names(client_ids, "client_ids")),
            all_members,
        )
        kind = RemoveMembers(choice, f"kgtool: {self._reason}" if self._reason else "kgtool")
        (done,) = self._make(
            REMOVE_MEMBERS,
            kind,
            [group],
            dry_run,
            all=all_members,
            instance_id=bool(choice.instance_ids),
            member_id=bool(choice.member_ids),
            client_id=bool(choice.client_ids),
            all_or_nothing=all_or_nothing,
        )
        missing = [row.error for row in done.rows if row.member is None and all_or_nothing]
        for problem in filter(None, (done.error, *missing)):
            raise KgError(problem.message, hint=problem.hint)
        return [row for row in done.rows if row.member is not None]
