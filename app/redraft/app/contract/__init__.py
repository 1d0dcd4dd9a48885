"""Holds the AsyncAPI contract of what travels over RabbitMQ; knows nothing of the command line."""
