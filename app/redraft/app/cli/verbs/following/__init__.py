"""Follows events: subscriptions and read models."""
