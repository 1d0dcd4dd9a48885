"""Holds what `redraft mcp` offers to assistants: tools and resources over the client and the views of the verbs."""
