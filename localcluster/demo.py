"""What the demo runs on the head: the nodes that Ray itself sees, and a small computation spread over them."""

import logging
import os
import sys
import time

os.environ["RAY_SCHEDULER_EVENTS"] = "0"  # no advice about what tasks wait for

import ray

EXPECTED_NODES = 3

ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)


def alive():
    return [node for node in ray.nodes() if node["Alive"]]


deadline = time.monotonic() + 60
while len(alive()) < EXPECTED_NODES and time.monotonic() < deadline:
    time.sleep(0.5)
nodes = alive()
print(f"Ray {ray.__version__} lists {len(nodes)} nodes:")
for node in nodes:
    print(f"  {node['NodeManagerHostname']}  {node['NodeManagerAddress']}  CPU {node['Resources'].get('CPU', 0):g}")
if len(nodes) != EXPECTED_NODES:
    sys.exit(f"expected {EXPECTED_NODES} nodes")


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def squares(first, last):
    return ray.util.get_node_ip_address(), sum(n * n for n in range(first, last))


LAST, STEP = 8_000_000, 1_000_000
parts = ray.get([squares.remote(n, n + STEP) for n in range(0, LAST, STEP)], timeout=120)
total = sum(part for _, part in parts)
assert total == (LAST - 1) * LAST * (2 * LAST - 1) // 6, total
print(f"The squares below {LAST:,} sum up to {total:,}: {len(parts)} tasks on {len({at for at, _ in parts})} node(s).")
