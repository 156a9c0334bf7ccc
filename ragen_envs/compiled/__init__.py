"""Compiled games: vector envs and the kernels they share."""
