"""Holds the bus on RabbitMQ; it alone knows aio-pika, aiormq and pamqp, and it knows nothing of stores."""
