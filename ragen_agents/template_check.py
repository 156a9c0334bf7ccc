"""Check that a stranger's chat template ends and needs little memory, before it is used in this process."""

import json
import subprocess
import sys
from functools import lru_cache
from typing import Any, Final

from ragen_envs.errors import RagenError

SECONDS: Final = 5
"""Most time of a processor for the conversations of the check."""
_WAIT: Final = 120
"""Most time on the clock: on a busy machine, and where there is no limit of the processor's time."""
_MEMORY: Final = 1 << 30
_LIMITED: Final = 9
"""Exit code of the check where memory is not enough."""
_TEXT: Final = "go " * 400
_CHATS: Final = [
    [{"role": role, "content": _TEXT} for role in roles.split()]
    for roles in ("system user", "user", "user assistant user assistant user")
]
# Only what jinja2 needs, which starts in a tenth of a second; transformers takes seconds.
_SCRIPT: Final = """
import json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
except ImportError:
    pass
from datetime import datetime
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

class Generation(Extension):
    tags = {"generation"}
    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)

def refuse(message):
    raise ValueError(message)

given = json.load(sys.stdin)
options = {"trim_blocks": True, "lstrip_blocks": True}
env = ImmutableSandboxedEnvironment(extensions=[Generation, loopcontrols], **options)
env.filters["tojson"] = lambda value, **options: json.dumps(value)
env.globals.update(raise_exception=refuse, strftime_now=datetime(2024, 7, 26).strftime)
try:
    template = env.from_string(given["template"])
except (MemoryError, OverflowError):
    sys.exit(9)
except Exception:
    sys.exit(0)  # whoever uses it says what is wrong
for messages in given["chats"]:
    for start in (True, False):
        try:
            template.render(messages=messages, add_generation_prompt=start, **given["tokens"])
        except (MemoryError, OverflowError):
            sys.exit(9)
        except Exception:
            pass
"""


def check_template(tokenizer: Any) -> None:
    """Render conversations with the template of a tokenizer in a process with limits."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str) or not template.strip():
        raise RagenError("the tokenizer has no chat template; save one with it")
    tokens = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    _check(json.dumps({"template": template, "chats": _CHATS, "tokens": tokens}))


@lru_cache(64)
def _check(given: str) -> None:
    command = [sys.executable, "-I", "-c", _SCRIPT, str(_MEMORY), str(SECONDS)]
    try:
        code = subprocess.run(command, input=given.encode(), capture_output=True, timeout=_WAIT).returncode
    except subprocess.TimeoutExpired:
        code = -1
    if code < 0:  # the system has ended it
        raise RagenError(f"the model's chat template does not end within {SECONDS} s; use another one")
    if code == _LIMITED:
        raise RagenError(
            "the model's chat template needs too much memory or too long a range; use another one"
        )
