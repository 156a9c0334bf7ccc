"""Render a stranger's chat template within limits: ``template_check.py MEMORY SECONDS TIME LIMITED``.

A program of its own, since only the end of a process stops a template that counts for ever. It reads the
template, conversations and special tokens as JSON, and exits with LIMITED where the memory is not enough. It
imports only what jinja2 needs, which starts in a tenth of a second; transformers takes seconds.
"""

import json
import resource
import sys
from datetime import datetime
from typing import Any, NoReturn

from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class _Generation(Extension):
    """The tag by which some templates mark what the model wrote."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _set_limits(memory: int, seconds: int) -> None:
    for limit, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        try:
            resource.setrlimit(limit, (most, most))
        except ValueError:  # a lower limit holds already, or the system has none
            continue


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def _render(given: Any, now: datetime) -> None:
    env = ImmutableSandboxedEnvironment(
        extensions=[_Generation, loopcontrols], trim_blocks=True, lstrip_blocks=True
    )
    env.filters["tojson"] = lambda value, **_: json.dumps(value)
    env.globals.update(raise_exception=_refuse, strftime_now=now.strftime)
    try:
        template = env.from_string(given["template"])
    except (MemoryError, OverflowError):
        raise
    except Exception:  # whoever uses the template says what is wrong
        return
    for messages in given["chats"]:
        for start in (True, False):
            try:
                template.render(messages=messages, add_generation_prompt=start, **given["tokens"])
            except (MemoryError, OverflowError):
                raise
            except Exception:
                continue


if __name__ == "__main__":
    memory, seconds, time, limited = sys.argv[1:]
    _set_limits(int(memory), int(seconds))
    try:
        _render(json.load(sys.stdin), datetime.fromisoformat(time))
    except (MemoryError, OverflowError):
        sys.exit(int(limited))
