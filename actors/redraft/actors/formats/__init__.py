"""Holds plans as YAML and as Mermaid diagrams; knows nothing of runs."""
