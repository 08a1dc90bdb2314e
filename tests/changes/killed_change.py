"""Two groups, one change of them, and ways to be killed at an exact step of it.

After each

* what the cluster has is what was there before, or what the journal says that it was to become;
* a journal is there if anything has changed, can be read, and says ``interrupted``;
* ``undo`` brings everything back exactly, and a second one has nothing to do.

``make soak`` kills at counted requests instead: ``tests.soak``.
"""

from __future__ import annotations

from pathlib import Path

from tests.changes import world
from tests.support import clients

CHANGES: dict[str, list[str]] = {
    "delete": ["--delete", "--group", "{one}", "--group", "{two}"],
    "delete-offsets": ["--delete-offsets", "--group", "{one}", "--topic", "{topic}"],
    "reset-offsets": [
        "--reset-offsets",
        "--group",
        "{one}",
        "--group",
        "{two}",
        "--topic",
        "{topic}",
        "--to-latest",
        "--execute",
    ],
}


class KilledChange:
    """Two groups, one change of them, and every way to be killed in it."""

    def __init__(self, bootstrap: str, folder: Path, change: str) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.topic = clients.create_topic(bootstrap, clients.unique("crash"), 3)
        for partition in range(3):
            clients.produce(bootstrap, self.topic, 10, partition=partition)
        self.one, self.two = clients.unique("crash-one"), clients.unique("crash-two")
        words = {"one": self.one, "two": self.two, "topic": self.topic}
        self.argv = ["--bootstrap-server", bootstrap, *(w.format(**words) for w in CHANGES[change])]
        world.commit(bootstrap, self.one, {(self.topic, 0): 3, (self.topic, 1): 4}, "first")
        world.commit(bootstrap, self.two, {(self.topic, 2): 7}, "second")
        self.before = self.offsets()
        self._journals = 0
        self.journal = self._new_journal()

    def offsets(self) -> dict[str, world.Seen]:
        return world.seen(self.bootstrap, self.one, self.two)

    def _new_journal(self) -> Path:
        self._journals += 1
        journal = self.folder / f"journal-{self._journals}"
        journal.mkdir()
        return journal

    @property
    def undo(self) -> list[str]:
        return ["--bootstrap-server", self.bootstrap, "undo", "last", "--yes"]

    # -- kills ------------------------------------------------------------------------------

    def kill_change(self, step: str) -> str:
        """Kill the change at a step; return ``changed`` or ``unchanged``."""
        assert world.crash(self.journal, step, self.argv).status == -9
        return self._after_kill()

    def kill_undo(self, step: str) -> None:
        """Kill the undo at a step; the next one does the rest."""
        self._change()
        assert world.crash(self.journal, step, self.undo).status == -9
        (undo, change) = world.history(self.journal)
        assert (undo["state"], change["state"]) == ("interrupted", "done")
        self._bring_back("changed")

    # -- what is left -----------------------------------------------------------------------

    def _change(self) -> None:
        done = world.kgtool(self.journal, *self.argv)
        assert done.status == 0, done.err
        assert self.offsets() != self.before

    def _after_kill(self) -> str:
        found = "unchanged" if self.offsets() == self.before else "changed"
        states = [entry["state"] for entry in world.history(self.journal)]
        # A journal that is not whole yet has no name: it is none.
        assert states == ["interrupted"] or (found == "unchanged" and not states), states
        self._bring_back(found)
        return found

    def _bring_back(self, found: str) -> None:
        """Undo, twice; everything is as it was, and the journal says so."""
        done = world.kgtool(self.journal, *self.undo)
        if found == "changed":
            assert done.status == 0, done.err
        assert self.offsets() == self.before, (self.before, self.offsets(), done)
        again = world.kgtool(self.journal, *self.undo)
        assert again.status == 1 and "nothing to undo" in again.err, again
        assert self.offsets() == self.before
        self.journal = self._new_journal()
