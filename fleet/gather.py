"""Gathers flow records from a bus into a tree, which burstline query and Spark read.

    gather.py kafka HOST:PORT TOPIC TREE
    gather.py nats HOST:PORT STREAM TREE

A message is a file of Parquet, and its header burstline-tree says where a tree has it. So a message
that comes twice is one file. Reads all that the bus has, and ends. Standard output gets a line of
JSON for each message: its id and whether it was there before.
"""

import asyncio
import json
import os
import re
import sys

# A place names no folder outside of the tree.
PLACE = re.compile(
    r"date=\d{4}-\d\d-\d\d/hour=\d\d/sensor=[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}/"
    r"part-[0-9a-f]{32}-\d{10,20}\.parquet"
)


def keep(tree, name, place, body):
    """Writes a message aside and renames it: readers see whole files."""
    if not PLACE.fullmatch(place):
        sys.exit(f"gather: message {name!r} has no place in a tree: {place!r}")
    path = os.path.join(tree, place)
    folder, file = os.path.split(path)
    is_again = os.path.exists(path)
    if not is_again:
        os.makedirs(folder, exist_ok=True)
        hidden = os.path.join(folder, f".{file}.tmp")
        with open(hidden, "wb") as out:
            out.write(body)
        os.rename(hidden, path)
    print(json.dumps({"id": name, "again": is_again}), flush=True)


def from_kafka(server, topic, tree):
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=server, enable_auto_commit=False, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or []]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for messages in consumer.poll(timeout_ms=1000).values():
            for message in messages:
                headers = {key: value.decode() for key, value in message.headers}
                keep(tree, headers["burstline-id"], headers["burstline-tree"], message.value)
    consumer.close()


async def from_nats(server, stream, tree):
    import nats

    client = await nats.connect(f"nats://{server}")
    streams = client.jetstream()
    there = (await streams.stream_info(stream)).state.messages
    if there:
        reader = await streams.pull_subscribe("", stream=stream)
        while there:
            for message in await reader.fetch(min(there, 100), timeout=10):
                place = message.headers["burstline-tree"]
                keep(tree, message.headers["Nats-Msg-Id"], place, message.data)
                await message.ack()
                there -= 1
    await client.close()


if __name__ == "__main__":
    kind, server, place, tree = sys.argv[1:]
    if kind == "kafka":
        from_kafka(server, place, tree)
    else:
        asyncio.run(from_nats(server, place, tree))
