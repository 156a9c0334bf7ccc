"""Replay what a run recorded and compare every number."""
