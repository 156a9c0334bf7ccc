"""A visit to a server of pages that a forked process runs."""

import os
import re
import signal
import time
import urllib.request

from forked import LIMIT


def visited(process, log):
    """Return the first page of a server, which Ctrl-C then ends, or None if it ends before there is one."""
    ends = time.monotonic() + LIMIT
    while process.is_alive() and time.monotonic() < ends:
        found = re.search(r"http://[\w.:]+/\S*", log.read_text(errors="replace")) if log.exists() else None
        if found:
            with urllib.request.urlopen(found[0], timeout=60) as page:
                text = page.read()
            os.kill(process.pid, signal.SIGINT)
            return text
        time.sleep(0.05)
    return None
