"""The policy that every change has to pass, from the CLI and from Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from kgtool.changes.session import Session
from kgtool.changes.snapshot import GroupChange
from kgtool.config.policy import Policy, Rules, confirmed, option_names, policy_rules
from kgtool.errors import KgError
from kgtool.text import counted, span


class PolicyRefused(KgError):
    """The cluster is protected, or a policy does not allow the change."""

    name = "POLICY_REFUSED"


class TooMany(KgError):
    """More groups are to be changed than ``--max-groups`` allows."""

    name = "MAX_DELETE"


class Origin(NamedTuple):
    """The origin of a change.

    ``arguments``: the command line; ``confirm``: the id of the cluster that may be changed;
    ``undoes``: the id of the journal that is undone; ``journal_copy``: the URL of the journal's
    remote copy.
    """

    command: str
    arguments: Sequence[str] = ()
    reason: str | None = None
    undoes: str | None = None
    confirm: str | None = None
    max_delete: int | None = None
    journal_copy: str | None = None


class Guard:
    """Checks one change, as far as it is known, and raises the refusal.

    :param session: a connected session.
    """

    def __init__(self, session: Session, origin: Origin) -> None:
        self._session = session
        self._origin = origin
        self._known: Rules | None = None
        self._groups: set[str] = set()
        self._offsets = 0
        self._busy: dict[str, str] | None = None

    @property
    def rules(self) -> Rules:
        """The policies of the cluster.

        :raises ConfigError: a policy can't be read.
        """
        if self._known is None:
            self._known = policy_rules(self._session.cluster_id, self._session.settings.context)
        return self._known

    @property
    def limits_size(self) -> bool:
        """Whether a policy limits the number of groups or offsets of a change."""
        limits = [(policy.max_groups, policy.max_offsets) for policy in self.rules.policies]
        return any(limit is not None for pair in limits for limit in pair)

    @property
    def key(self) -> str | None:
        """The value that confirms a change: the cluster's id, else its protected context."""
        return self._session.cluster_id or next(iter(self.rules.protected_by), None)

    def is_confirmed(self) -> bool:
        """Whether the cluster is not protected, or its id was given."""
        return not self.rules.protected_by or confirmed(self._origin.confirm) == self.key

    def check(self) -> None:
        """Check what is known before the groups.

        :raises PolicyRefused: the cluster is protected and not confirmed, an option is forbidden,
            or there is no reason.
        """
        key, origin = self.key, self._origin
        if not self.is_confirmed() or origin.confirm not in (None, key):
            names = ", ".join(self.rules.protected_by)
            what = f"protected (context {names})" if names else "not the one of --confirm"
            raise PolicyRefused(
                f"The cluster {self._session.cluster_id or 'without id'} is {what}: nothing was "
                "changed.",
                hint=f"--confirm {key} (KGTOOL_CONFIRM, GroupAdmin(confirm=…)) allows it.",
            )
        check_words(self.rules.policies, origin.arguments)
        for policy in self.rules.policies:
            if policy.reason and not (origin.reason or "").strip():
                raise _refused(policy, "a change needs a reason", "Give one with --reason TEXT.")

    def check_unseen(self) -> None:
        """Check a change whose groups are unknown: a raw request.

        :raises PolicyRefused: a policy depends on them.
        """
        self.check()
        for policy in self.rules.policies:
            if policy.is_about_groups:
                raise _refused(policy, "which groups a raw request changes is unknown")

    def admit(self, groups: Iterable[str], offsets: int = 0) -> None:
        """Check some groups, with those before them; ``offsets``: how many will be changed.

        :raises PolicyRefused: one of them is protected, or they are too many.
        :raises TooMany: they are more than ``--max-groups`` allows.
        """
        self.check()
        names = list(groups)
        self.limit(names)
        count = len(self._groups)
        for policy in self.rules.policies:
            for group, glob in product(names, policy.protected):
                if fnmatchcase(group, glob):
                    raise _refused(policy, f"group '{group}' is protected ({glob})")
            limits = (count, "group", policy.max_groups), (offsets, "offset", policy.max_offsets)
            for number, what, limit in limits:
                if limit is not None and number > limit:
                    said = f"{counted(number, what)} would be changed, the limit is {limit}"
                    raise _refused(policy, said)

    def limit(self, groups: Iterable[str]) -> None:
        """Count some groups with those before them.

        :raises TooMany: they are more than ``--max-groups`` allows.
        """
        self._groups.update(groups)
        count, limit = len(self._groups), self._origin.max_delete
        if limit is not None and count > limit:
            raise TooMany(
                f"{counted(count, 'group')} would be changed, and --max-groups allows {limit}: "
                "nothing was changed.",
                hint="Choose fewer groups, or raise the number.",
            )

    def find_busy(self, groups: Collection[str], now_ms: int) -> None:
        """Find the idle groups, where a policy demands that; the groups are locked."""
        least = max((policy.min_idle_ms or 0 for policy in self.rules.policies), default=0)
        if not least or self._origin.undoes is not None:
            return
        from kgtool.changes.cleanup.criteria import Criteria, decide_all
        from kgtool.changes.cleanup.facts import survey

        looked = survey(self._session.cluster, list(groups), {}, now_ms, now_ms - least)
        found = self._session.run(looked).groups
        items, unknown = decide_all(found, Criteria(idle_ms=least), now_ms)
        idle = {item.group for item in items}
        why = {facts.description.group: "it was used" for facts in found}
        why.update({each.group: each.why for each in unknown})
        cause = "its last use can't be looked up"
        self._busy = self._busy or {}
        self._busy.update({g: why.get(g, cause) for g in groups if g not in idle})

    def admit_changes(self, changes: Sequence[GroupChange]) -> None:
        """Check what is about to be journaled and changed.

        :raises PolicyRefused: a policy does not allow it.
        """
        self._offsets += sum(len(change.after) for change in changes)
        self.admit((change.image.group for change in changes), self._offsets)
        for policy in self.rules.policies:
            for change in changes:
                removes = change.deletes_group or None in change.after.values()
                self._judge(policy, change.image.group, removes=removes, is_blind=change.is_blind)

    def admit_removal(
        self, groups: Collection[str], now_ms: int, is_blind: Callable[[str], bool]
    ) -> None:
        """Check a previewed removal of offsets, as ``find_busy`` and ``admit_changes`` would.

        :raises PolicyRefused: a policy does not allow it.
        """
        self.find_busy(groups, now_ms)
        for policy, group in product(self.rules.policies, groups):
            self._judge(policy, group, removes=True, is_blind=is_blind(group))

    def _judge(self, policy: Policy, group: str, *, removes: bool, is_blind: bool) -> None:
        if policy.refuse_blind and is_blind:
            raise _refused(policy, f"undo may not cover all of group '{group}'")
        if policy.min_idle_ms is None or not removes or self._origin.undoes is not None:
            return
        why = "it was not checked" if self._busy is None else self._busy.get(group)
        if why is not None:
            least = span(policy.min_idle_ms)
            raise _refused(policy, f"group '{group}' is not known to be idle for {least} ({why})")


def check_words(policies: Iterable[Policy], words: Sequence[str]) -> None:
    """Check the words of a command line, typed or made of arguments.

    :raises PolicyRefused: an option among them is forbidden.
    """
    for policy in policies:
        for name in sorted(option_names(words, policy.forbid)):
            raise _refused(policy, f"{name} is forbidden")


def _refused(policy: Policy, why: str, hint: str | None = None) -> PolicyRefused:
    return PolicyRefused(f"The policy {policy.path} refuses it: {why}.", hint=hint)
