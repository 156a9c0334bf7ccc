"""Rollouts by vLLM.

In this process: ``engine`` drives the model of ``local``, whose share of a device is from ``memory``. On
servers: ``served``. ``api`` has the versions and the format of messages.
"""
