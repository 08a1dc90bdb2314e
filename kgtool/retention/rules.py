"""When a broker may remove a committed offset or a group: the executable specification.

Plain scalar Python. ``describe --expiry``, ``explain`` and ``cleanup`` use it live, the Spark job
has the same rules as array expressions, and both are tested against real brokers. Nothing here
reads a clock: all times are milliseconds since the epoch and come in as arguments.

Sources of the rules: ``GroupMetadata.removeExpiredOffsets`` (the Scala coordinator, up to
3.9), ``OffsetMetadataManager.cleanupExpiredOffsets`` and ``Group.offsetExpirationCondition`` (the
new coordinator), KIP-211 (2.1), KIP-496 (2.4), KIP-848 (4.0).

A broker checks once per ``offsets.retention.check.interval.ms``, so a removal comes at the time
given here or within one interval after it; right after a coordinator has loaded its partition,
within two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# --- names that users see and the Spark job shares, so they never change -------------------------

RULE_EXPLICIT: Final = "explicit"
"""The record carries its own expire timestamp (OffsetCommit v2-v4 with a retention time)."""
RULE_COMMIT: Final = "commit"
"""Commit timestamp + retention."""
RULE_EMPTY_SINCE: Final = "empty-since"
"""The time at which the classic group became Empty + retention, for all its offsets alike."""
RULE_SUBSCRIBED: Final = "subscribed"
"""Never: a current member subscribes to the topic."""
RULE_LIVE_GROUP: Final = "live-group"
"""Never: the group has members, and this broker then keeps all its offsets (before 2.4; not the
``consumer`` protocol type; a subscription that can't be parsed)."""
RULE_REBALANCING: Final = "rebalancing"
"""Never: a classic group in the middle of a rebalance keeps everything."""
RULE_PENDING: Final = "pending-transaction"
"""Never: an open transaction holds a commit for the partition (3.8+ new coordinator)."""
RULE_ORPHAN: Final = "orphan"
"""Never: the new coordinator checks group by group, and does not know this offset's group."""
RULE_SHARE: Final = "share"
"""Never: share groups are skipped."""

RULES: Final = (
    RULE_EXPLICIT,
    RULE_COMMIT,
    RULE_EMPTY_SINCE,
    RULE_SUBSCRIBED,
    RULE_LIVE_GROUP,
    RULE_REBALANCING,
    RULE_PENDING,
    RULE_ORPHAN,
    RULE_SHARE,
)

TYPE_CLASSIC: Final = "classic"
TYPE_CONSUMER: Final = "consumer"
TYPE_SHARE: Final = "share"
TYPE_STREAMS: Final = "streams"
"""``Group.GroupType`` in lower case. A *simple* group (only standalone commits) is, as in Kafka,
a classic group with the protocol type ``""``."""

STATE_EMPTY: Final = "Empty"
STATE_STABLE: Final = "Stable"
STATE_PREPARING_REBALANCE: Final = "PreparingRebalance"
STATE_COMPLETING_REBALANCE: Final = "CompletingRebalance"
STATE_DEAD: Final = "Dead"
"""Spelled as in ListGroups and DescribeGroups (the Assigning and Reconciling of KIP-848 groups
count as Stable here)."""

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type whose subscriptions a coordinator can parse."""

CAUSE_EXPIRED: Final = "expired"
"""An offset was removed because its time had come."""
CAUSE_GROUP_EMPTY: Final = "group-empty"
"""A group was removed because it was Empty and had no offsets left."""
CAUSE_CONVERTED: Final = "converted"
"""A classic group became one of the KIP-848 family (or vice versa)."""
CAUSE_EXPLICIT: Final = "explicit"
"""OffsetDelete, DeleteGroups or a topic's deletion."""

PENDING_IGNORED: Final = "ignored"
PENDING_WITH_OFFSETS: Final = "with-offsets"
PENDING_ALWAYS: Final = "always"

MAX_TIMESTAMP_MS: Final = 2**63 - 1
"""Sums stop here, as in every place where a timestamp is an int64."""

# --- the generations of brokers ------------------------------------------------------------------


class RuleSet(NamedTuple):
    """The behaviour of one generation of brokers; a new generation is a new entry in RULE_SETS."""

    name: str
    """The contract's name, as in ``--rules``."""
    brokers: str
    """These brokers, in words."""
    new_coordinator: bool
    """Written in Java (KIP-848): loads groups in log order, checks offsets group by group, and
    always writes a group's tombstone. The Scala one does that only for a generation above 0."""
    fixed_at_commit: bool = False
    """The offset's own expire timestamp decides, whatever the state of its group, and strictly: it
    must be *before* the broker's now. A missing one was set to commit + retention."""
    reads_subscriptions: bool = True
    """A group with members, of the ``consumer`` protocol type, loses the offsets of topics that it
    no longer subscribes to."""
    pending_protects_offset: bool = False
    """An open transaction's commit for a partition keeps the partition's older offset."""
    pending_keeps_group: str = PENDING_ALWAYS
    """PENDING_ALWAYS, PENDING_IGNORED, or PENDING_WITH_OFFSETS: only when the group also had a
    committed offset at the start of the check (3.8 - 4.0.0: else it is removed, and the
    transaction's later COMMIT makes orphans)."""
    commit_always_replaces: bool = False
    """A transaction's COMMIT overwrites even an offset that was committed after its own."""
    tombstone_drops_pending: bool = False
    """An offset's tombstone also drops what open transactions hold for its partition."""
    marks_outlive_offsets: bool = False
    """3.8 - 4.0: a group is marked with every transaction that commits for it, and a transaction's
    end removes the mark only from groups that it still has a pending offset for. Where a tombstone
    had dropped the last one (OffsetDelete, a deleted topic), the group stays for ever."""
    rebalancing_is_stable: bool | None = False
    """2.4.0 - 2.8.1, 3.0.0, 3.1.0 (KAFKA-13636, GroupMetadata.removeExpiredOffsets): a group in the
    middle of a rebalance loses the offsets of topics that it no longer subscribes to, as if it were
    Stable; one that was Empty before subscribes to none. None: some of these brokers do."""
    forgets_date_on_load: bool | None = False
    """2.3.0 - 2.6.0 (GroupMetadataManager.readGroupMessageValue): since when a group is Empty is
    read from values of version 2 only, and these brokers write version 3. So from a restart or a
    move of the coordinator on the offsets of such a group go by their commits. None: some of these
    brokers do."""
    shows_loads: bool = False
    """Each restart of a broker raises the leader epoch, also a single broker's, after a stop and
    after a kill (seen on 4.3.1). With ZooKeeper a single broker's does not (seen on 2.8.2), nor
    one with KRaft that comes at once after a kill (seen on 3.9.1)."""
    minus_one_is_past: bool = False
    """2.1.x only: a v1 value with expireTimestamp -1 ("none") is taken for a time long past."""

    @property
    def may_forget_date(self) -> bool:
        """Whether a load that no log shows may lose since when a group is Empty."""
        return self.forgets_date_on_load is True or self == RULES_2_6_ANY


RULES_PRE_2_1: Final = RuleSet(
    name="pre-2.1",
    brokers="up to 2.0",
    new_coordinator=False,
    fixed_at_commit=True,
    reads_subscriptions=False,
)
RULES_2_1: Final = RuleSet(
    name="2.1",
    brokers="2.1 to 2.3",
    new_coordinator=False,
    reads_subscriptions=False,
    forgets_date_on_load=None,
)
RULES_2_4: Final = RuleSet(
    name="2.4",
    brokers="2.4 to 3.9 with the Scala coordinator, their default",
    new_coordinator=False,
    rebalancing_is_stable=None,
    forgets_date_on_load=None,
)
RULES_3_7_NEW: Final = RuleSet(
    name="3.7-new",
    brokers="3.7 with the new coordinator (preview)",
    new_coordinator=True,
    pending_keeps_group=PENDING_IGNORED,
    commit_always_replaces=True,
)
RULES_3_8_NEW: Final = RuleSet(
    name="3.8-new",
    brokers="3.8 and 3.9 with the new coordinator, and 4.0",
    new_coordinator=True,
    pending_protects_offset=True,
    pending_keeps_group=PENDING_WITH_OFFSETS,
    tombstone_drops_pending=True,
    marks_outlive_offsets=True,
)
RULES_4_1: Final = RuleSet(
    name="4.1",
    brokers="4.1 and later",
    new_coordinator=True,
    shows_loads=True,
    pending_protects_offset=True,
    tombstone_drops_pending=True,
)

RULE_SETS: Final = {
    rules.name: rules
    for rules in (RULES_PRE_2_1, RULES_2_1, RULES_2_4, RULES_3_7_NEW, RULES_3_8_NEW, RULES_4_1)
}
"""By the contract's names, oldest first."""

RULES_2_1_X: Final = RULES_2_1._replace(minus_one_is_past=True, forgets_date_on_load=False)
"""2.1.0 and 2.1.1 exactly."""
RULES_2_2: Final = RULES_2_1._replace(forgets_date_on_load=False)
RULES_2_3: Final = RULES_2_1._replace(forgets_date_on_load=True)
RULES_2_6: Final = RULES_2_4._replace(rebalancing_is_stable=True, forgets_date_on_load=False)
"""2.6.1 to 2.8.1, 3.0.0 and 3.1.0 exactly."""
RULES_2_6_ANY: Final = RULES_2_6._replace(forgets_date_on_load=None)
"""2.6, when no more is known, as of a living broker."""
RULES_2_5: Final = RULES_2_6._replace(forgets_date_on_load=True)
"""2.4.0 to 2.6.0 exactly."""
RULES_2_8: Final = RULES_2_4._replace(forgets_date_on_load=False)
"""2.8.0 to 3.6, when no more is known."""
RULES_3_2: Final = RULES_2_4._replace(rebalancing_is_stable=False, forgets_date_on_load=False)
"""2.8.2, 3.0.1, 3.1.1, and 3.2 to 3.9."""


def rules_for_broker(version: tuple[int, ...], *, new_coordinator: bool) -> RuleSet:
    """The rule set of a broker of that version, such as ``(3, 9, 1)``.

    ``new_coordinator`` says whether a 3.7 - 3.9 broker was switched to the new one
    (``group.coordinator.new.enable``, or ``consumer`` among
    ``group.coordinator.rebalance.protocols``); other versions have only one.
    """
    release = (*version, 0, 0)[:2]
    if release >= (4, 1):
        return RULES_4_1
    if release >= (4, 0) or (new_coordinator and release >= (3, 8)):
        return RULES_3_8_NEW
    if new_coordinator and release >= (3, 7):
        return RULES_3_7_NEW
    if release >= (2, 4):
        return _scala(version)
    if release >= (2, 2):
        return RULES_2_3 if release >= (2, 3) else RULES_2_2
    return RULES_2_1_X if release == (2, 1) else RULES_PRE_2_1


def _scala(version: tuple[int, ...]) -> RuleSet:
    """Those of 2.4 to 3.9, which differ in two bugs; (2, 6) is any 2.6."""
    if version[:2] <= (2, 5) or version[:3] == (2, 6, 0):
        return RULES_2_5
    if version == (2, 6):
        return RULES_2_6_ANY
    if len(version) == 2 and (2, 8) <= version <= (3, 1):
        return RULES_2_8
    unfixed = version[:2] <= (2, 7) or version[:3] in ((2, 8, 0), (2, 8, 1), (3, 0, 0), (3, 1, 0))
    return RULES_2_6 if unfixed else RULES_3_2


# --- what is judged ------------------------------------------------------------------------------


class CommittedOffset(NamedTuple):
    """The two fields of an OffsetCommitValue that decide."""

    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """``None`` where the value has no such field (v0, v2, v3, v4); ``-1`` only from a v1 value.
    Both mean "none", except to 2.1.x."""


class GroupSnapshot(NamedTuple):
    """A group at one moment, as its coordinator has it in memory."""

    type: str = TYPE_CLASSIC
    state: str = STATE_EMPTY
    protocol_type: str = ""
    """Classic groups only; ``""`` is a simple group."""
    state_since_ms: int | None = None
    """Classic groups: GroupMetadataValue.currentStateTimestamp; ``None`` where absent (-1, or a
    value of version 0 or 1)."""
    subscribed_topics: frozenset[str] | None = frozenset()
    """Topics of the current members: of a KIP-848 group, names and resolved regular expressions; of
    a streams group, source and repartition-source topics. ``None`` where they are unknown, also
    when one member's subscription can't be parsed."""
    generation: int = 0
    """Classic groups only."""
    by_load: frozenset[str] | None = frozenset()
    """Topics that are no longer subscribed, or only then, if the coordinator has loaded the
    partition since a static member came back (``groups.Group``); None: all, as some record of the
    generation can't be parsed."""


class Verdict(NamedTuple):
    """When an offset expires as things stand, and by which rule."""

    expires_at_ms: int | None
    """The earliest moment at which the broker may remove it, ``None``: never as things stand."""
    rule: str
    """One of RULES."""


# --- the rules -----------------------------------------------------------------------------------


def verdict(
    rules: RuleSet,
    group: GroupSnapshot | None,
    offset: CommittedOffset,
    topic: str,
    retention_ms: int,
    pending: bool = False,
) -> Verdict:
    """Return when a broker with these rules may remove an offset, and why.

    :param group: None where the coordinator does not know the group.
    :param retention_ms: ``offsets.retention.minutes`` in milliseconds.
    :param pending: an open transaction holds a commit for the same group, topic and partition.
    """
    if rules.fixed_at_commit:
        return _fixed_at_commit(offset, retention_ms)
    group = _as_seen_by(rules, group)
    if group is None:
        return Verdict(None, RULE_ORPHAN)
    never = _kept_whole(rules, group)
    if never is not None:
        return Verdict(None, never)
    if _is_subscribed(group, topic):
        return Verdict(None, RULE_SUBSCRIBED)
    if pending and rules.pending_protects_offset:
        return Verdict(None, RULE_PENDING)
    return _by_time(rules, group, offset, retention_ms)


def group_may_go(
    rules: RuleSet, group: GroupSnapshot, *, offsets_before: bool, offsets_left: bool, pending: bool
) -> bool:
    """Whether a check removes the group itself, right after its expired offsets.

    Without retention: a group without commits is removed at the first check after it became Empty.

    :param offsets_before: it had committed offsets before this check's removals.
    :param offsets_left: it has some after them.
    :param pending: some open transaction holds commits for it.
    """
    seen = _as_seen_by(rules, group)
    if seen is None or seen.type == TYPE_SHARE or seen.state != STATE_EMPTY or offsets_left:
        return False
    if not pending or rules.pending_keeps_group == PENDING_IGNORED:
        return True
    return rules.pending_keeps_group == PENDING_WITH_OFFSETS and not offsets_before


def group_leaves_tombstone(rules: RuleSet, group: GroupSnapshot) -> bool:
    """Whether the group's removal is written to the log, not only made in memory."""
    if rules.new_coordinator:
        return True
    return group.type == TYPE_CLASSIC and group.generation > 0


def keeps_whole(rules: RuleSet, group: GroupSnapshot | None) -> bool:
    """Whether no offset of the group may expire, whatever its topic and its time."""
    seen = _as_seen_by(rules, group)
    return seen is None or _kept_whole(rules, seen) is not None


def is_simple(group: GroupSnapshot) -> bool:
    """Whether the group has only standalone commits."""
    return group.type == TYPE_CLASSIC and not group.protocol_type


def _as_seen_by(rules: RuleSet, group: GroupSnapshot | None) -> GroupSnapshot | None:
    """Return the group as this generation's coordinator has it in memory."""
    if rules.new_coordinator:
        # DescribeGroups says Dead for a classic group that the coordinator does not have.
        dead = group is not None and group.type == TYPE_CLASSIC and group.state == STATE_DEAD
        return None if dead else group
    # The Scala coordinator skips the records of KIP-848, and while loading it gives every offset
    # whose group has no metadata record a simple group.
    if group is None or group.type != TYPE_CLASSIC or group.state == STATE_DEAD:
        return GroupSnapshot()
    return group


def _kept_whole(rules: RuleSet, group: GroupSnapshot) -> str | None:
    """Return the rule by which none of the group's offsets may expire, if there is one."""
    if group.type == TYPE_SHARE:
        return RULE_SHARE
    if is_simple(group) or group.state == STATE_EMPTY:
        return None
    if group.type == TYPE_CLASSIC:
        moving = group.state in (STATE_PREPARING_REBALANCE, STATE_COMPLETING_REBALANCE)
        if moving and not rules.rebalancing_is_stable:
            return RULE_REBALANCING
        if not rules.reads_subscriptions or group.protocol_type != CONSUMER_PROTOCOL:
            return RULE_LIVE_GROUP
    return RULE_LIVE_GROUP if group.subscribed_topics is None else None


def _is_subscribed(group: GroupSnapshot, topic: str) -> bool:
    """Whether a current member is subscribed; an Empty group has no members."""
    if is_simple(group) or group.state in (STATE_EMPTY, STATE_DEAD):
        return False
    return group.subscribed_topics is not None and topic in group.subscribed_topics


def _fixed_at_commit(offset: CommittedOffset, retention_ms: int) -> Verdict:
    # Strict: the broker wants the timestamp before its now, so 1 ms later is the first chance.
    own = offset.expire_timestamp_ms
    if own is None or own == -1:
        return Verdict(_plus(offset.commit_timestamp_ms, retention_ms + 1), RULE_COMMIT)
    return Verdict(_plus(own, 1), RULE_EXPLICIT)


def _by_time(
    rules: RuleSet, group: GroupSnapshot, offset: CommittedOffset, retention_ms: int
) -> Verdict:
    own = offset.expire_timestamp_ms
    if own is not None and (own != -1 or rules.minus_one_is_past):
        return Verdict(own, RULE_EXPLICIT)
    if group.type == TYPE_CLASSIC and not is_simple(group) and group.state == STATE_EMPTY:
        since = group.state_since_ms
        if since is not None and since != -1:
            return Verdict(_plus(since, retention_ms), RULE_EMPTY_SINCE)
    return Verdict(_plus(offset.commit_timestamp_ms, retention_ms), RULE_COMMIT)


def _plus(timestamp_ms: int, duration_ms: int) -> int:
    return min(timestamp_ms + duration_ms, MAX_TIMESTAMP_MS)
