"""What real processes of the tests have in common."""

import signal


def interruptible():
    """Let a new process take Ctrl-C, which whoever runs the tests may have switched off: a ``preexec_fn``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
