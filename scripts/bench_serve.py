#!/usr/bin/env python3
"""bench_serve.py THALWEG [--quick]: what the server takes and adds, as a table; about four minutes on an idle machine
with two processors. The server has the first processor to itself, with one I/O thread, the client the second one. What
tokens and requests cost is CPU time of all threads of the server; the client is another process.

1. Scripted answers, 1,000 streams of 50 events a second each: whether all came, at what rate, what a token costs.
2. The same at half the load: what the server adds to the time of an event, from the moment its model had it.
3. Short requests that do not stream.
4. The program's own model: tokens a second through HTTP against those of `thalweg bench throughput` on one processor,
   in pairs that take turns. The client's CPU time is not taken from the model: it has its own processor."""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

PACE_MS = 20  # 50 events a second
# Pieces of one token each, in steps of a millisecond: a twentieth of the streams has a token in each of them.
PACED = {"context_tokens": 16384, "step_ms": 1, "answers": [
    {"pieces": ["."], "delay_ms": PACE_MS, "times": 10000, "stamped": True}]}
SHORT = {"answers": [{"pieces": ["short"]}]}
TICKS = os.sysconf("SC_CLK_TCK")


def on(processor, command):
    return ["taskset", "-c", str(processor), *command]


class Server:
    def __init__(self, program, *arguments):
        self.log = tempfile.NamedTemporaryFile(mode="w+")
        command = [program, "serve", "--port", "0", "--io-threads", "1", "--max-requests", "4096", *arguments]
        self.process = subprocess.Popen(on(0, command), stdout=self.log, stderr=self.log)
        self.url = None

    def __enter__(self):
        while self.process.poll() is None and self.url is None:
            with open(self.log.name) as log:
                found = re.search(r" at (http://[0-9.:]+)$", log.read(), re.MULTILINE)
            self.url = found.group(1) if found else None
            time.sleep(0.05)
        if self.url is None:
            raise SystemExit(open(self.log.name).read())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def load(self, program, **options):
        """Figures of `thalweg bench serve`, with server_cpu_s."""
        command = [program, "bench", "serve", "--url", self.url, "--json"]
        for name, value in options.items():
            name = name.replace("_", "-")
            command += [f"--no-{name}"] if value is False else [f"--{name}", str(value)]
        before = self.cpu_s()
        done = subprocess.run(on(1, command), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        figures = json.loads(done.stdout)
        figures["server_cpu_s"] = self.cpu_s() - before
        return figures


def row(name, value, wanted=""):
    print(f"{name:<58} {value:>12} {wanted}", flush=True)


def streams(server, program, count, seconds):
    """So many streams at once, all begun within a second."""
    events = seconds * 1000 // PACE_MS
    figures = server.load(program, requests=count, rate=count, prompt_tokens=32, output_tokens=events, pace_ms=PACE_MS)
    # The stamp is one event of a few tokens.
    lost = figures["tokens_per_s"] * figures["seconds"] - count * events
    name = f"{count} streams of {1000 // PACE_MS} events a second"
    row(f"{name}: errors", int(figures["errors"]), "0")
    row(f"{name}: tokens lost", round(-lost), "0")
    row(f"{name}: seconds", f"{figures['seconds']:.2f}", f"about {1 + seconds}")
    row(f"{name}: added latency ms, p50", f"{figures['added_ms_p50']:.2f}")
    row(f"{name}: added latency ms, p99", f"{figures['added_ms_p99']:.2f}", "<= 5 at half load")
    row(f"{name}: us of the server's CPU a token", f"{1e6 * figures['server_cpu_s'] / (count * events):.1f}", "<= 10")
    row(f"{name}: us of the client's CPU a token", f"{1e6 * figures['client_cpu_s'] / (count * events):.1f}")
    row(f"{name}: share of the server's processor", f"{figures['server_cpu_s'] / figures['seconds']:.2f}", "< 1")


def short(server, program, count):
    figures = server.load(program, requests=count, concurrency=64, prompt_tokens=4, output_tokens=1, stream=False)
    row("short requests: errors", int(figures["errors"]), "0")
    row("short requests a second", round(figures["requests_per_s"]), ">= 8000")
    row("short requests: us of the server's CPU each", f"{1e6 * figures['server_cpu_s'] / count:.1f}")
    row("short requests: ms, p99", f"{figures['e2e_ms_p99']:.2f}")


LOAD = {"prompt_tokens": 64, "output_tokens": 64, "concurrency": 64}


def throughput(program, requests):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in LOAD.items()]
    done = subprocess.run(on(0, [program, "bench", "throughput", "--threads", "1", "--requests", str(requests), "--json",
                                 *options]), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["output_tok_per_s"]


def model(program, pairs, requests):
    shares = []
    with Server(program, "--threads", "1") as server:
        server.load(program, requests=4, **LOAD)
        for i in range(pairs):
            http = server.load(program, requests=requests, load_seed=i + 2, **LOAD)["tokens_per_s"]
            shares.append((http, throughput(program, requests)))
    row("nano through HTTP: tokens a second, median", round(statistics.median(a for a, _ in shares)))
    row("nano without HTTP: tokens a second, median", round(statistics.median(b for _, b in shares)))
    ratio = [a / b for a, b in shares]
    row("nano through HTTP: share of that without, median of pairs", f"{statistics.median(ratio):.3f}", ">= 0.9")
    row("nano through HTTP: share, least and most", f"{min(ratio):.3f} {max(ratio):.3f}")


@contextlib.contextmanager
def scripted(program, script):
    with tempfile.NamedTemporaryFile(mode="w", suffix=".json") as file:
        json.dump(script, file)
        file.flush()
        with Server(program, "--model", "fake:" + file.name) as server:
            yield server


def main(program, quick=None):
    if os.cpu_count() < 2:
        raise SystemExit("bench_serve.py wants two processors")
    scale = 1 if quick else 3
    with scripted(program, PACED) as server:
        streams(server, program, 1000, 5 * scale)
        streams(server, program, 500, 5 * scale)
    with scripted(program, SHORT) as server:
        short(server, program, 40000 * scale)
    model(program, 1 if quick else 5, 128)


if __name__ == "__main__":
    main(*sys.argv[1:])
