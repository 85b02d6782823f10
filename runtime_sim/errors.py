"""The base of every error this project raises."""

from __future__ import annotations


class VnpuError(Exception):
    """An error a user can act on: what is wrong, the value seen, the limit, what to do.

    The message is one line, `what: seen SEEN; limit LIMIT; fix`, with absent parts left out.
    """

    def __init__(
        self, what: str, *, seen: object = None, limit: object = None, fix: str | None = None
    ) -> None:
        """Keep the parts and build the one-line message from them."""
        self.what, self.seen, self.limit, self.fix = what, seen, limit, fix
        parts = []
        if seen is not None:
            parts.append(f"seen {seen}")
        if limit is not None:
            parts.append(f"limit {limit}")
        if fix is not None:
            parts.append(fix)
        super().__init__(what + (": " + "; ".join(parts) if parts else ""))


class CommandError(VnpuError):
    """A command that breaks a rule: `rule` names it, `command` is the index in the stream."""

    def __init__(
        self,
        what: str,
        *,
        rule: str,
        command: int | None = None,
        seen: object = None,
        limit: object = None,
        fix: str | None = None,
    ) -> None:
        """Keep the rule and the command beside the message's parts."""
        self.rule, self.command = rule, command
        super().__init__(what, seen=seen, limit=limit, fix=fix)
