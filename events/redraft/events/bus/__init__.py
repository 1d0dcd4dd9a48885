"""Holds the port of the bus and the bus of one process; knows nothing of RabbitMQ."""
