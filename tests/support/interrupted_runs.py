"""Runs as an interruption leaves them."""


def cut(run, size, torn=0):
    """Keep so many bytes of the episodes, and the hashes of what are whole lines of them.

    Args:
        run: The run directory.
        size: Of what is kept.
        torn: Bytes of the hashes that were not written any more.
    """
    kept = (run / "episodes.jsonl").read_bytes()[:size]
    (run / "episodes.jsonl").write_bytes(kept)
    sums = run / "episodes.sha256"
    sums.write_bytes(sums.read_bytes()[: max(0, 65 * kept.count(b"\n") - torn)])
