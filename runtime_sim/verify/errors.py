"""What the verifier raises."""

from __future__ import annotations

from runtime_sim.errors import CommandError
from runtime_sim.plan import Planned


class VerifyError(CommandError):
    """A stream breaks a rule. `rule` names it, `command` is the index of the command at fault."""


def fault(
    rule: str, command: Planned, what: str, seen: object = None, limit: object = None
) -> VerifyError:
    """Return the error of `command`: the message is "command N (MNEMONIC) <what>"."""
    return VerifyError(
        f"{command.title} {what}", rule=rule, command=command.index, seen=seen, limit=limit
    )
