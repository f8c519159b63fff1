"""soak_test.py THALWEG [SECONDS]: mixed traffic with clients that leave, bad requests and slow readers, half of it to a
scripted model and half to the program's own. At the end nothing is under way, the cache is not in use, and memory has
not grown."""

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
MOST_TOKENS = 48
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {
    "type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}},
    "required": ["n"], "additionalProperties": False}}}
BODIES = {
    "/v1/completions": lambda text: {"prompt": text, "max_tokens": MOST_TOKENS, "n": random.choice([1, 1, 3])},
    "/v1/chat/completions": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": MOST_TOKENS,
                                          "seed": random.randrange(1 << 30),
                                          "response_format": random.choice([None, None, SCHEMA])},
    "/v1/messages": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": MOST_TOKENS},
    "/v1/responses": lambda text: {"input": text, "max_output_tokens": MOST_TOKENS},
}
# Prompts that begin alike, of any length: the cache is filled, hit and emptied.
WORDS = "once upon a time there was a river that ran through the valley and nobody knew where it came from".split()


def whole(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
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
            except ConnectionResetError:
                return
            if not data:
                return
            most -= len(data)
        time.sleep(max(0, until - time.monotonic()))


def post(path, body):
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def prompt():
    told = " ".join(WORDS[: random.randrange(len(WORDS))] * random.choice([1, 1, 4]))
    return random.choice(["hi", "slow", "fails", "json"]) + " " + told + str(random.randrange(100))


def act(url):
    path = random.choice(list(BODIES))
    body = BODIES[path](prompt())
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


def memory(process):
    """KiB in use."""
    with open(f"/proc/{process}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def load(url):
    with urllib.request.urlopen(url + "/load") as answer:
        return json.load(answer)


class Watched:
    """A server and its memory over time."""

    def __init__(self, name, program, *arguments):
        self.name = name
        self.serving = Serving(program, "--stall-seconds", "2", "--log-level", "info", *arguments)
        self.memory = []

    def note(self):
        self.memory.append(memory(self.serving.process.pid))

    def settled(self):
        """What /load says when nothing should be under way any more."""
        until = time.monotonic() + 20
        while load(self.url)["server_load"] > 0 and time.monotonic() < until:
            time.sleep(0.1)
        return load(self.url)

    def check(self):
        now = self.settled()
        assert now["server_load"] == 0 and now["running"] == 0 and now["waiting"] == 0, (self.name, now)
        assert now["used_blocks"] == 0, (self.name, now)
        print(f"{self.name}: KiB {self.memory}")
        quarter = max(1, len(self.memory) // 4)
        before, after = (max(part) for part in (self.memory[:quarter], self.memory[-quarter:]))
        assert after < before * 1.05 + 8192, f"{self.name}: memory grew from {before} to {after} KiB"


def run_for(servers, seconds, notes):
    """Traffic for so long; memory is noted so many times. Returns how many requests there were."""
    begin = time.monotonic()
    count = 0
    noted = 0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        while time.monotonic() < begin + seconds:
            for done in [pool.submit(act, random.choice(servers).url) for _ in range(64)]:
                done.result()
                count += 1
            if time.monotonic() >= begin + noted * seconds / max(notes, 1) and notes > 0:
                noted += 1
                for server in servers:
                    server.note()
    return count


def main(program, seconds="60"):
    random.seed(1)
    script = f"/tmp/thalweg-soak-{os.getpid()}.json"
    with open(script, "w") as file:
        json.dump(SCRIPT, file)
    servers = [Watched("script", program, "--model", "fake:" + script),
               Watched("nano", program, "--cache-tokens", "32768", "--max-context", "4096", "--so-cache-bytes", "4194304")]
    with servers[0].serving as servers[0].url, servers[1].serving as servers[1].url:
        count = run_for(servers, min(float(seconds) / 4, 240), 0)
        count += run_for(servers, float(seconds), 30)
        for server in servers:
            server.check()
    os.unlink(script)
    print(f"{count} requests")


if __name__ == "__main__":
    main(*sys.argv[1:])
