"""One file a command, with a click command called ``command``.

``kgtool --help`` shows this table, and imports no command; a test compares it with the commands.
"""

from __future__ import annotations

SECTIONS = {
    "Look": {
        "list": "Show the groups with type, state, members and coordinator.",
        "lag": "Show how far groups are behind, worst first; --rates too.",
        "describe": "Show groups: committed offsets and lag, members, or state.",
        "doctor": "Find what is wrong, and the command that fixes it.",
        "explain": "Show why a group is as it is, and what to do next.",
        "peek": "Show the records around a committed offset.",
        "top": "Show all groups on one living screen.",
    },
    "Change": {
        "reset-offsets": "Set the committed offsets of groups that have no members.",
        "delete-offsets": "Delete committed offsets, of living groups too (KIP-496).",
        "delete": "Delete groups that have no members.",
        "cleanup": "Remove dead groups and offsets by a plan that you review.",
        "keep": "Keep committed offsets for another full retention.",
        "retention": "Give groups a retention of their own, longer or shorter.",
        "remove-members": "Remove members from a group: stuck, static and departed ones.",
        "configs": "Show and change the configs of single groups (KIP-848).",
    },
    "Go back": {
        "undo": "Restore offsets to what they were before a change.",
        "recover": "Restore offsets that expired or were deleted by any tool.",
        "backup": "Save committed offsets, of living groups too, to one file.",
        "restore": "Restore the committed offsets of groups from a backup.",
        "diff": "Compare the offsets of two files, or of a file and a cluster.",
    },
    "Understand the past": {
        "export": "Copy __consumer_offsets, byte for byte, into a folder.",
        "analyze": "Show live offsets, when each expires and why; write a report.",
    },
    "Set up": {
        "context": "Manage connection profiles, each with its policy.",
        "sandbox": "Run a real Apache Kafka on this machine (no Docker, no root).",
        "completion": "Print the completion script of a shell.",
    },
    "Also": {
        "coordinator": "Show which broker coordinates a group, and its offsets partition.",
        "history": "Show the changes that kgtool made on this machine.",
        "request": "Send one raw Kafka request, and show the response.",
        "validate-regex": "Check a regular expression as brokers read it (RE2).",
        "exporter": "Serve metrics of all groups to Prometheus.",
        "mcp": "Serve reads and planned changes to an agent (MCP on stdio).",
        "man": "Show the man page of a command.",
        "help": "Show the help of a command, or of Kafka's form (kgtool help kafka).",
        "version": "Show the version.",
    },
}
"""The commands by purpose, each with a sentence."""

ALSO = "Also"
"""The section that only ``kgtool help all`` shows."""

COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}

ALIASES = {"ls": "list", "reset": "reset-offsets"}
NOUNS = ("group", "groups", "consumer-group", "consumer-groups")
"""May stand before a command: ``group list``, ``groups describe g``; alone they are ``list``."""
