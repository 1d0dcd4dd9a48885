"""Faults of what is carried from the log to those who work, and read."""

from tests.simulation.faults import Fault

CARRYING = [
    Fault(
        "relay past an unconfirmed publish",
        "actors.lanes",
        "Lanes.put",
        "except (BusUnusable, TimeoutError) as error:",
        "except BusError:\n        return\n    except (BusUnusable, TimeoutError) as error:",
        52,
    ),
    Fault(
        "relay forgets requests",
        "actors.relay",
        "Relay._addressed",
        "return work_queue(asked.role, asked.actor), Parcel(letter, event, asked)",
        'queue = work_queue(asked.role, asked.actor) if event.position % 7 else "nowhere"\n'
        "    return queue, Parcel(letter, event, asked)",
        14,
    ),
    Fault(
        "relay sends what a fork repeats",
        "actors.relay",
        "Relay._publish",
        "isinstance(event.data, StepRequested) and not event.repeats",
        "isinstance(event.data, StepRequested)",
        57,
    ),
    Fault(
        "request settled before its outcome is sent",
        "actors.worker",
        "Worker._report",
        "while finished := await desk.lift():",
        "while finished := await desk.lift():\n        await requests.ack([each.delivery for each in finished])",
        113,
    ),
    Fault(
        "lost timer",
        "actors.timekeeper",
        "Timekeeper._letter",
        "message = (RetryStep",
        "if step.retry:\n        return None\n    message = (RetryStep",
        1,
    ),
    Fault(
        "double notification",
        "events.tail",
        "Tail.follow",
        "position = batch[-1].position\n                yield batch",
        "yield batch\n                position = batch[-1].position if self._bell.count % 5 else batch[0].position",
        2,
    ),
    Fault(
        "notification without its event",
        "events.tail",
        "Tail.follow",
        "position = batch[-1].position\n                yield batch",
        "position = batch[-1].position + (self._bell.count % 9 == 8)\n                yield batch",
        0,
    ),
    Fault(
        "projection passes over a batch",
        "projections.writer",
        "Writer._apply",
        "for entry in news:",
        "for entry in news[: len(news) - (len(news) > 5)]:",
        0,
    ),
    Fault(
        "what could not be told is still at work",
        "actors.desk",
        "Desk.abandon",
        "self._whereabouts.end(request)",
        "pass",
        176,
    ),
]
