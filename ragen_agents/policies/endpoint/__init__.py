"""A model behind an OpenAI-compatible endpoint as a policy; needs the extra ``api``."""
