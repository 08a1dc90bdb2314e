"""One file a command; each holds a click command called ``command``.

This table is what ``kgtool --help`` shows, so that no command needs to be imported for it; a test
compares it with the commands themselves.
"""

from __future__ import annotations

COMMANDS = {
    "list": "Show the groups with type, state and coordinator.",
    "describe": "Show groups: committed offsets and lag, members, or state.",
    "explain": "Say why a group is as it is, what expires when, and what to type next.",
    "doctor": "Find what is wrong with groups, and say which command fixes it.",
    "delete": "Delete groups that have no members.",
    "delete-offsets": "Delete committed offsets of groups, living ones too (KIP-496).",
    "reset-offsets": "Set committed offsets of groups that have no members.",
    "remove-members": "Remove members from a group: stuck ones, and static ones gone.",
    "keep": "Make committed offsets live for another full retention.",
    "backup": "Save the committed offsets of groups, living ones too, in one file.",
    "restore": "Give groups the committed offsets of a backup.",
    "diff": "Compare the offsets of two files, a file and a cluster, or two clusters.",
    "history": "Show the changes that kgtool made on this machine.",
    "undo": "Put offsets back where they were before kgtool changed them.",
    "peek": "Show the records around a committed offset.",
    "configs": "Show and change the configs of single groups (KIP-848).",
    "coordinator": "Show which broker looks after a group, and from which partition.",
    "request": "Send one request of Kafka's protocol, and show the answer.",
    "cleanup": "Remove dead groups and offsets by a plan: find, review, apply, undo.",
    "context": "Keep connection profiles: add, list, use, remove.",
    "validate-regex": "Check a regular expression as brokers read it (RE2).",
    "export": "Copy __consumer_offsets, byte for byte, into a folder.",
    "analyze": "Tell what is live, what expires when, and why what went is gone.",
    "sandbox": "Run a real Apache Kafka on this machine (no Docker, no root).",
}
