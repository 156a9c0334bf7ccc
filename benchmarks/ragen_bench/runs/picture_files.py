"""Keep the pictures that models were shown as PNG files, named by the hash of their pixels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ragen_agents.pictures import decode_png, picture_hash
from ragen_agents.policies import AsyncPolicy, Policy, Reply, Request
from ragen_agents.policies.base import Releasable
from ragen_agents.run_files.files import write_atomically, writing
from ragen_envs.errors import RagenError
from ragen_envs.pictures.png import encode_png

PICTURES: Final = "pictures"
_MAX_BYTES: Final = 1 << 24


class Pictured:
    """A policy whose pictures are kept before it sees them."""

    def __init__(self, policy: AsyncPolicy, run: Path) -> None:
        self.name, self.concurrency = policy.name, policy.concurrency
        self._policy, self._run = policy, run

    async def reply(self, request: Request) -> Reply:
        """Save the newest picture, and pass the request on."""
        _keep_picture(request, self._run)
        return await self._policy.reply(request)

    async def close(self) -> None:
        """Close the policy."""
        await self._policy.close()


class PicturedBatch:
    """The same for a policy that plays many conversations in a batch."""

    def __init__(self, policy: Policy, run: Path) -> None:
        self.name, self.batch_size = policy.name, policy.batch_size
        self._policy, self._run = policy, run

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Save the newest pictures, and pass the requests on."""
        for request in requests:
            _keep_picture(request, self._run)
        return self._policy.act(requests)

    def release(self) -> None:
        """Release what the policy keeps between turns."""
        if isinstance(self._policy, Releasable):
            self._policy.release()


def _keep_picture(request: Request, run: Path) -> None:
    """Save the newest picture of a request, if it has one that is not there yet."""
    if not request.pictures:
        return
    path = run / PICTURES / f"{picture_hash(request.pictures[-1])}.png"
    if not path.exists():
        with writing(path):
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, encode_png(request.pictures[-1]))


def kept_hash(run: Path, name: str) -> str:
    """Return the hash of the picture in the file of that name, or what is wrong with the file."""
    path = run / PICTURES / f"{name}.png"
    try:
        if path.stat().st_size > _MAX_BYTES:
            return f"more than {_MAX_BYTES} bytes"
        return picture_hash(decode_png(path.read_bytes()))
    except FileNotFoundError:
        return "no file"
    except (OSError, RagenError) as error:
        return str(error)
