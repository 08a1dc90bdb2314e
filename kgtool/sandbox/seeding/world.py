"""The seeded world: every topic, group and number that ``sandbox seed`` makes.

The demo, the tests and the documentation use these names; they are the same on every machine.

Topics (partitions × records each):

=================  =====================================================================
``orders``         6 × 100
``payments``       3 × 80
``clicks``         12 × 50
``audit``          1 × 60; records 0–19 were deleted (log start offset 20)
``inventory``      2 × 10; it had 100 records each before it was deleted and made again
``transfers``      2 × 100, transactional, then 5 more in partition 0 of an open transaction
``notifications``  2 × 30, read by the share group
`LONG_TOPIC`       1 × 10; its name has 249 characters, Kafka's limit
=================  =====================================================================

Groups with living members (a process keeps them alive until ``sandbox down``):

===================  ===================================================================
``billing``          classic, 2 members on ``orders``; dropped ``payments``, whose offsets
                     remain. So ``delete-offsets`` on it does all three things: ``payments:0``
                     is deleted, ``orders:0`` is refused (still subscribed), ``payments:99``
                     does not exist
``fulfilment``       classic, cooperative, 2 static members (``fulfilment-1``, ``-2``) on
                     ``orders`` and ``clicks``; partitions 8–11 of ``clicks`` never committed
``shipping-848``     KIP-848, 2 static members (``shipping-1``, ``-2``) on ``orders``; dropped
                     ``payments`` like ``billing``
``analytics-848``    KIP-848, 1 member subscribed to the regular expression ``^click.*``
``connect-cluster``  protocol type ``connect``, 1 worker, no offsets
``share-workers``    a share group, 1 member on ``notifications``, all of which it has read
``enrichment``       a streams group, 1 member: subtopology 0 reads ``orders``, 1 ``payments``;
                     nothing is committed
===================  ===================================================================

Groups without members:

=============================  =========================================================
``reporting``                  classic, went empty; ``orders`` and ``payments``
``reporting-old``              classic, went empty; ``payments``
``connect-s3-sink``            classic, a sink connector's consumers; ``orders``
``reporting-848``              KIP-848, went empty; ``clicks``
``mirror``, ``checkpointer``   standalone committers (assign(), never a member);
                               ``checkpointer`` has the metadata strings of `ODD_METADATA`
``stock-sync``                 standalone; ``inventory`` at 100: beyond the end (10)
``auditor``                    standalone; ``audit`` at 5: before the start (20)
``transfers``                  committed 50 and 50, and 100 pending in partition 0
``transfers-pending``          only pending: 40 in partition 1
``transfers-aborted``          committed 10; a transaction that said 60 was aborted
``console-consumer-NNNNN``     200 of them, went empty; ``clicks`` (see `console_groups`)
`LONG_GROUP`, `ODD_GROUPS`     standalone; long and oddly written names
=============================  =========================================================

A Kafka without KIP-848 or share groups (3.9.1 as it comes) gets the world without those.
"""

from __future__ import annotations

from typing import NamedTuple

SeededOffsets = dict[tuple[str, int], int]

TOPICS = {
    "orders": (6, 100),
    "payments": (3, 80),
    "clicks": (12, 50),
    "audit": (1, 60),
    "notifications": (2, 30),
    "long-topic-" + "t" * 238: (1, 10),
}
LONG_TOPIC = "long-topic-" + "t" * 238
LONG_GROUP = "long-group-" + "g" * 244
ODD_GROUPS = ("team a: orders/v2 (old)", "отчёты-по-заказам", "a,b;c=d")
CONSOLE_GROUPS = 200
AUDIT_START = 20
INVENTORY = "inventory"
INVENTORY_BEFORE, INVENTORY_NOW = 100, 10
TRANSFERS = "transfers"
TRANSFERS_RECORDS, TRANSFERS_OPEN = 100, 5

# Real metadata: Kafka Streams' base64, JSON, other alphabets, and characters that could fool a
# terminal or a spreadsheet.
ODD_METADATA = (
    "",
    "AgAAAZxm5gPl",
    '{"host": "node-7", "at": "2024-11-05T10:00:00Z"}',
    "prüfsumme=✓ 数据",
    "tab\there, newline\nthere",
    '\x1b[31mred\x1b[0m =1+1,"quoted"',
)


class SeededGroup(NamedTuple):
    """Members that stay: how many, on which topics, static where ``instance`` is set."""

    group: str
    topics: tuple[str, ...]
    members: int
    protocol: str = "classic"
    instance: str = ""
    strategy: str = "range"
    was_on: tuple[str, ...] = ()

    @property
    def is_848(self) -> bool:
        """Whether it speaks KIP-848."""
        return self.protocol == "consumer"


LIVE = (
    SeededGroup("billing", ("orders",), 2, was_on=("orders", "payments")),
    SeededGroup(
        "fulfilment", ("orders", "clicks"), 2, instance="fulfilment", strategy="cooperative-sticky"
    ),
    SeededGroup(
        "shipping-848",
        ("orders",),
        2,
        protocol="consumer",
        instance="shipping",
        was_on=("orders", "payments"),
    ),
    SeededGroup("analytics-848", ("^click.*",), 1, protocol="consumer"),
)
WENT_EMPTY = (
    SeededGroup("reporting", ("orders", "payments"), 1),
    SeededGroup("reporting-old", ("payments",), 1),
    SeededGroup("connect-s3-sink", ("orders",), 1),
    SeededGroup("reporting-848", ("clicks",), 1, protocol="consumer"),
)
CONNECT_GROUP = "connect-cluster"
SHARE_GROUP = "share-workers"
STREAMS_GROUP = "enrichment"
TOPOLOGY = {"0": ("orders",), "1": ("payments",)}


def live_offsets(group: str) -> SeededOffsets:
    """The offsets that the members of a group, living or empty by now, have committed."""
    orders: SeededOffsets = {
        ("orders", p): 100 - lag for p, lag in enumerate((0, 5, 20, 0, 100, 1))
    }
    payments: SeededOffsets = {("payments", p): offset for p, offset in enumerate((80, 40, 10))}
    clicks: SeededOffsets = {("clicks", p): 25 + 2 * p for p in range(12)}
    return {
        "billing": orders | payments,
        "fulfilment": orders | {tp: at for tp, at in clicks.items() if tp[1] < 8},
        "shipping-848": orders | payments,
        "analytics-848": clicks,
        "reporting": orders | payments,
        "reporting-old": payments,
        "connect-s3-sink": orders,
        "reporting-848": clicks,
    }[group]


def console_groups() -> list[str]:
    """The names of the 200 console consumers: always the same, spread like random ones."""
    return [f"console-consumer-{10007 + 397 * i:05d}" for i in range(CONSOLE_GROUPS)]


def standalone_offsets() -> dict[str, SeededOffsets]:
    """Committed with assign(), so that their groups never had a member."""
    return {
        "mirror": {("orders", p): 100 for p in range(6)} | {("payments", 0): 80},
        "auditor": {("audit", 0): 5},
        LONG_GROUP: {(LONG_TOPIC, 0): 7},
        **{group: {("payments", 0): 20 + i} for i, group in enumerate(ODD_GROUPS)},
    }
