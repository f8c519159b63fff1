"""soak_test.py THALWEG [SECONDS]: mixed traffic with clients that leave, bad requests and slow readers. At the end
nothing is under way, the cache is not in use, and memory has not grown."""

import concurrent.futures
import json
import os
import random
import socket
import sys
import time
import urllib.error
import urllib.request

from serving import Serving

SCRIPT = {
    "answers": [
        {"match": "slow", "pieces": ["word "], "delay_ms": 5, "times": 200},
        {"match": "flood", "pieces": ["word " * 50], "by": "piece", "times": 2000},
        {"match": "fails", "pieces": ["half"], "fail": {"code": "internal error"}},
        {"pieces": ["Well.</think>", "Hello ", "there"]},
    ]
}
BODIES = {
    "/v1/completions": lambda text: {"prompt": text, "max_tokens": 200, "n": random.choice([1, 1, 3])},
    "/v1/chat/completions": lambda text: {"messages": [{"role": "user", "content": text}]},
    "/v1/messages": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 200},
    "/v1/responses": lambda text: {"input": text},
}


def whole(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()


def raw(url, text, seconds, most):
    """Sends a text, reads at most so many bytes for so long, and leaves."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0.2)
        client.sendall(text)
        until = time.monotonic() + seconds
        while time.monotonic() < until and most > 0:
            try:
                data = client.recv(min(most, 1000))
            except TimeoutError:
                continue
            if not data:
                return
            most -= len(data)
        time.sleep(max(0, until - time.monotonic()))


def post(path, body):
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def act(url):
    path = random.choice(list(BODIES))
    body = BODIES[path](random.choice(["hi", "slow", "fails"]))
    body["stream"] = random.random() < 0.5
    kind = random.randrange(8)
    if kind < 3:
        whole(url, path, body)
    elif kind < 5:
        raw(url, post(path, body), random.random() * 0.3, 10_000)
    elif kind == 5:
        raw(url, post("/v1/completions", {"prompt": "flood", "stream": True, "max_tokens": 5000}), 1, 2000)
    elif kind == 6:
        raw(url, post(path, body)[: random.randrange(1, 60)], 0.05, 100)
    else:
        whole(url, path, {"messages": 3, "prompt": {}, "input": [1], "n": -1})


def memory(url, process):
    with open(f"/proc/{process}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def load(url):
    with urllib.request.urlopen(url + "/load") as answer:
        return json.load(answer)


def run_for(url, seconds):
    until = time.monotonic() + seconds
    count = 0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        while time.monotonic() < until:
            for done in [pool.submit(act, url) for _ in range(64)]:
                done.result()
                count += 1
    return count


def main(program, seconds="60"):
    random.seed(1)
    script = f"/tmp/thalweg-soak-{os.getpid()}.json"
    with open(script, "w") as file:
        json.dump(SCRIPT, file)
    serving = Serving(program, "--model", "fake:" + script, "--stall-seconds", "2", "--log-level", "info")
    with serving as url:
        warm = run_for(url, float(seconds) / 4)
        before = memory(url, serving.process.pid)
        count = run_for(url, float(seconds))
        until = time.monotonic() + 20
        while load(url)["server_load"] > 0 and time.monotonic() < until:
            time.sleep(0.1)
        now = load(url)
        after = memory(url, serving.process.pid)
    os.unlink(script)
    assert now["server_load"] == 0 and now["running"] == 0 and now["used_blocks"] == 0, now
    assert after < before * 1.1 + 8192, f"memory grew from {before} to {after} KiB"
    print(f"{warm + count} requests, memory {before} KiB, then {after} KiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
