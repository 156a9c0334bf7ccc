"""The same games for other libraries' tools. Each module needs its library."""
