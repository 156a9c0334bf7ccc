"""The command ``ragen``: errors that a user can cause are one line, exit code 2, no traceback."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
FAILED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    received: list[int] = []
    try:
        if isinstance(sys.stdout, TextIOWrapper):  # boards have signs that some terminals lack
            sys.stdout.reconfigure(errors="replace")
        from ragen_bench.console.log_handler import logs_on_stderr

        # Before the games are imported, which warn of packages that cannot be loaded.
        with _terminated_like_ctrl_c(received), logs_on_stderr():
            return _run(arguments, received)
    except KeyboardInterrupt:
        return _interrupted(received)
    except RecursionError:
        return _fail("a setting, or a file that was read, is nested too deeply; simplify it")
    except ImportError as error:
        return _fail(_missing(error))


def _interrupted(received: Sequence[int], text: str = "") -> int:
    """Print what ended the command, and return the exit code: that of Ctrl-C unless SIGTERM was received."""
    print(f"{'terminated by SIGTERM' if received else 'interrupted'}{text}", file=sys.stderr)
    return TERMINATED if received else INTERRUPTED


def _missing(error: ImportError) -> str:
    """Name the package that a command needs, and the extra that has it if there is one."""
    from ragen_envs.errors import install_hint

    package = (error.name or "").split(".")[0]
    if package in ("fcntl", "resource", "termios"):
        return "this command runs on Linux and macOS; on Windows, run it in WSL"
    extra = next((e for e, packages in _EXTRAS.items() if package in packages), None)
    if extra is not None:
        return f"this command needs {error.name}; {install_hint(extra)}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"this command needs {error.name}, which is not installed"
    return str(error)


_EXTRAS = {
    "bench": ("PIL", "anyio", "jinja2", "pandas", "pydantic", "rich", "scipy", "typer", "yaml"),
    "api": ("httpx2", "openai"),
    "models": ("huggingface_hub", "torch", "transformers", "safetensors", "tokenizers"),
    "multi-agent": ("pettingzoo",),
    "inspect": ("inspect_ai",),
    "leaderboard": ("pyarrow",),
    "train": ("accelerate", "datasets", "matplotlib", "peft", "psutil", "trl"),
}


@contextmanager
def _terminated_like_ctrl_c(received: list[int]) -> Iterator[None]:
    """Handle SIGTERM, which clusters send, like Ctrl-C, and add it to the list."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        handler = signal.getsignal(signal.SIGINT)  # asyncio has one of its own
        if callable(handler):
            handler(number, frame)
        else:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: Sequence[str] | None, received: Sequence[int]) -> int:
    import typer

    from ragen_bench.cli import app
    from ragen_bench.cli.interruption import InterruptedCommandError
    from ragen_envs.errors import RagenError

    try:
        code = app(arguments, prog_name="ragen", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except InterruptedCommandError as error:
        print(file=sys.stderr)
        return _interrupted(received, f"; {error}")
    except RagenError as error:
        return _fail(str(error) + getattr(error, "hint", ""))
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except BrokenPipeError:
        # Python flushes once more at its exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(
            f"'{error.filename}': {error.strerror}"
            if error.filename
            else f"{error.strerror or error}; the same command resumes a run"
        )
    except Exception as error:
        # Errors of the command line's usage; their class moved between versions of typer.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            message = error.format_message()  # none where the help was shown instead
            if "--import" in message:
                message += "; it stands before the command: ragen --import FILE"
            return _fail(message) if message else FAILED
        raise


def _fail(message: str) -> int:
    from ragen_bench.console.escaping import escape_unprintable

    print(f"error: {escape_unprintable(' '.join(message.split()))}", file=sys.stderr)
    return FAILED


def _leave(code: int) -> NoReturn:
    """End this process, under torchrun at once.

    gloo's threads live on while a wrapped model refers to their process group, and an interpreter that is
    taken apart under them aborts now and then, after all is done.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    _leave(main())
