"""The parts every game is made of: the base classes, the text face, the oracle's types, errors."""
