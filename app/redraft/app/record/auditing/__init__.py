"""Verifies and tells runs: audits, their page, faults of records, signed checkpoints."""
