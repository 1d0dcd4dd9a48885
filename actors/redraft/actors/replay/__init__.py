"""Holds recorded runs decided again under another policy; pure like deciding."""
