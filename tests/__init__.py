"""A package, so that pytest does not import from this folder: `vllm` would be the tests of that name."""
