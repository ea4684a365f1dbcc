"""What the demo runs on the head: the nodes that Ray itself sees, and a small computation spread over them."""

import logging
import sys
import time

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


@ray.remote(num_cpus=0, scheduling_strategy="SPREAD")
def squares(first, last):
    return ray.util.get_node_ip_address(), sum(n * n for n in range(first, last))


parts = ray.get([squares.remote(n, n + 100_000) for n in range(0, 1_000_000, 100_000)])
total = sum(part for _, part in parts)
assert total == sum(n * n for n in range(1_000_000))
print(f"The squares below one million sum up to {total}, in {len(parts)} tasks on {len({at for at, _ in parts})} nodes.")
