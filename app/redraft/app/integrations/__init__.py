"""Holds what joins Redraft to other libraries: theirs as actors, and a workflow as a part of theirs.

Each library has a module, `redraft.app.integrations.pydantic_ai` and `langgraph`, and an extra of the same name;
`callables` needs none.
"""
