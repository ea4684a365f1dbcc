"""Prints the requests of one user since a time, from an API server's audit log: verb, resource, subresource,
namespace, code. Long-running watches count once, when they end or begin, and are marked `watch`."""

import glob
import json
import sys

log, user, since = sys.argv[1:4]
for path in sorted(glob.glob(log[: -len(".log")] + "*.log")):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line may be half written
            if entry.get("stage") != "ResponseComplete" or entry["user"]["username"] != user:
                continue
            if entry["requestReceivedTimestamp"] < since:
                continue
            target = entry.get("objectRef", {})
            print(
                entry["verb"],
                target.get("resource", "-"),
                target.get("subresource", "-"),
                target.get("namespace", "-"),
                entry.get("responseStatus", {}).get("code", "-"),
            )
