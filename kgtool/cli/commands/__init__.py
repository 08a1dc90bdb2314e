"""One file a command, with a click command called ``command``.

``kgtool --help`` shows this table, and imports no command; a test compares it with the commands.
"""

from __future__ import annotations

SECTIONS = {
    "Read": {
        "list": "Show the groups with type, state, members and coordinator.",
        "describe": "Show groups: committed offsets and lag, members, or state.",
        "lag": "Show how far groups are behind, the worst first.",
        "top": "Show all groups on one living screen.",
        "explain": "Show why a group is as it is, what expires when, and what to do next.",
        "doctor": "Find what is wrong with groups, and the command that fixes it.",
        "peek": "Show the records around a committed offset.",
        "coordinator": "Show which broker coordinates a group, and its offsets partition.",
        "diff": "Compare the offsets of two files, a file and a cluster, or two clusters.",
    },
    "Change": {
        "delete": "Delete groups that have no members.",
        "delete-offsets": "Delete committed offsets of groups, active ones too (KIP-496).",
        "reset-offsets": "Set the committed offsets of groups that have no members.",
        "remove-members": "Remove members from a group: stuck, static and departed ones.",
        "keep": "Keep committed offsets for another full retention.",
        "configs": "Show and change the configs of single groups (KIP-848).",
        "cleanup": "Remove dead groups and offsets by a plan: find, review, apply, undo.",
    },
    "Save and undo": {
        "backup": "Save the committed offsets of groups, active ones too, to one file.",
        "restore": "Restore the committed offsets of groups from a backup.",
        "history": "Show the changes that kgtool made on this machine.",
        "undo": "Restore offsets to what they were before a change.",
    },
    "Analyze": {
        "export": "Copy __consumer_offsets, byte for byte, into a folder.",
        "analyze": "Show live offsets, when they expire, and why others were removed.",
    },
    "Tools": {
        "context": "Manage connection profiles.",
        "request": "Send one raw Kafka request, and show the response.",
        "validate-regex": "Check a regular expression as brokers read it (RE2).",
        "exporter": "Serve metrics of all groups to Prometheus.",
        "mcp": "Serve reads and planned changes to an agent (MCP on stdio).",
        "sandbox": "Run a real Apache Kafka on this machine (no Docker, no root).",
        "completion": "Print the completion script of a shell.",
        "man": "Show the man page of a command.",
        "help": "Show the help of a command, or of Kafka's form (kgtool help kafka).",
        "version": "Show the version.",
    },
}
"""The commands by purpose, each with a sentence."""

COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}

ALIASES = {"ls": "list", "reset": "reset-offsets"}
NOUNS = ("group", "groups")
"""May stand before a command: ``group list``, ``groups describe g``; alone they are ``list``."""
