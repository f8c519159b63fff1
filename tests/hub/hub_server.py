#!/usr/bin/env python3
"""A server that speaks the part of the Hugging Face Hub's API that a download uses.

  hub_server.py FOLDER

serves the files in FOLDER as the repository test/model (those above LFS_BYTES as LFS files) on a free
port of 127.0.0.1, which it prints. It ends with its standard input. FOLDER/../faults.json, read anew
for each request, tells it how to misbehave; FOLDER/../requests.log gets one JSON line for each request.

Keys of faults.json:
  token         only requests with this token are answered; others get 401
  gated         403 GatedRepo for every file
  info          {"FILE": {...}}: fields put over those of a file in the repository's answer
  extra         more entries for the file list
  huge_info     pad the repository's answer to so many bytes
  raw_info      the repository's answer, as text
  cut           {"FILE": n}: each answer's connection is closed after n bytes
  cut_times     {"FILE": k}: only the first k times
  body          {"FILE": text}: sent in the place of the file
  longer        {"FILE": n}: n more bytes than announced, without Content-Length
  errors        {"FILE" or "info": [status, ...]}: answers before the first good one; "429:2" has Retry-After: 2
  cdn           redirect LFS files to this server's second port
  no_range      answer 200 with everything when a range is asked for
  bad_range     {"FILE": true}: 206 with another range than the one asked for
  range_refused {"FILE": true}: 416 when a range is asked for
  slow          {"FILE": bytes per 10 ms}
  redirect_loop {"FILE": true}
"""
import hashlib
import http.server
import json
import os
import pathlib
import sys
import threading
import time
import urllib.parse

NAME = "test/model"
LFS_BYTES = 4096
BRANCHES = {"main": None, "v2": None, "refs/pr/1": None}


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                self.files[path.relative_to(self.folder).as_posix()] = path.read_bytes()
        everything = json.dumps({name: git_sha1(data) for name, data in self.files.items()})
        self.commit = hashlib.sha1(everything.encode()).hexdigest()
        self.lock = threading.Lock()
        self.counts = {}
        self.active = 0

    def faults(self):
        try:
            return json.loads((self.folder.parent / "faults.json").read_text())
        except FileNotFoundError:
            return {}

    def log(self, entry):
        with self.lock, open(self.folder.parent / "requests.log", "a") as out:
            out.write(json.dumps(entry) + "\n")

    def count(self, kind, name):
        """How often this was asked before."""
        with self.lock:
            key = (kind, name)
            self.counts[key] = self.counts.get(key, 0) + 1
            return self.counts[key] - 1

    def info(self, faults):
        if "raw_info" in faults:
            return faults["raw_info"].encode()
        siblings = []
        for name, data in self.files.items():
            entry = {"rfilename": name, "size": len(data), "blobId": git_sha1(data)}
            if len(data) > LFS_BYTES:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            over = faults.get("info", {}).get(name, {})
            for key, value in over.items():
                if key == "lfs":
                    entry["lfs"] = {**entry.get("lfs", {}), **value}
                else:
                    entry[key] = value
            siblings.append(entry)
        siblings += faults.get("extra", [])
        answer = {"_id": "0", "id": NAME, "modelId": NAME, "private": False, "gated": False, "sha": self.commit,
                  "siblings": siblings}
        if "huge_info" in faults:
            answer["padding"] = "x" * faults["huge_info"]
        return json.dumps(answer).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    repository = None
    cdn_port = 0
    is_cdn = False

    def log_message(self, *_):
        pass

    def do_GET(self):
        weight = 1 if "/resolve/" in self.path else 0
        with self.repository.lock:
            self.repository.active += weight
            active = self.repository.active
        try:
            self.answer(active)
        finally:
            with self.repository.lock:
                self.repository.active -= weight

    def answer(self, active):
        self.faults = self.repository.faults()
        self.repository.log({"path": self.path, "active": active, "range": self.headers.get("Range"), "cdn": self.is_cdn,
                             "authorization": self.headers.get("Authorization"), "time": time.time()})
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if self.is_cdn:
            return self.send_file(path.removeprefix("/cdn/"))
        if self.faults.get("token") and self.headers.get("Authorization") != "Bearer " + self.faults["token"]:
            return self.send_error_text(401, {"X-Error-Message": "Invalid username or password."})
        if path.startswith("/api/models/"):
            return self.send_info(path.removeprefix("/api/models/"))
        return self.resolve(path)

    def send_bytes(self, status, body, headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error_text(self, status, headers=None):
        self.send_bytes(status, json.dumps({"error": "no"}).encode(), headers or {})

    def injected(self, name):
        errors = self.faults.get("errors", {}).get(name, [])
        at = self.repository.count("error", name)
        if at >= len(errors):
            return False
        status, _, wait = str(errors[at]).partition(":")
        self.send_error_text(int(status), {"Retry-After": wait} if wait else {})
        return True

    def send_info(self, rest):
        name, _, revision = rest.partition("/revision/")
        if self.injected("info"):
            return None
        if name != NAME:
            return self.send_error_text(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        if revision not in BRANCHES and revision != self.repository.commit:
            return self.send_error_text(404, {"X-Error-Code": "RevisionNotFound",
                                              "X-Error-Message": "Invalid rev id: " + revision})
        return self.send_bytes(200, self.repository.info(self.faults), {"Content-Type": "application/json"})

    def resolve(self, path):
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        commit, _, name = rest.partition("/")
        if repo != NAME or commit != self.repository.commit or name not in self.repository.files:
            return self.send_error_text(404, {"X-Error-Code": "EntryNotFound"})
        if self.faults.get("gated"):
            return self.send_error_text(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        if self.injected(name):
            return None
        data = self.repository.files[name]
        if self.faults.get("redirect_loop", {}).get(name):
            return self.redirect(self.path)
        if len(data) > LFS_BYTES and self.faults.get("cdn"):
            return self.redirect("http://127.0.0.1:%d/cdn/%s?signature=1" % (self.cdn_port, name), {
                "X-Repo-Commit": commit, "X-Linked-Size": str(len(data)),
                "X-Linked-Etag": '"%s"' % hashlib.sha256(data).hexdigest()})
        return self.send_file(name)

    def redirect(self, location, headers=None):
        self.send_bytes(302, b"Found. Redirecting to elsewhere", {"Location": location, **(headers or {})})

    def send_file(self, name):
        data = self.repository.files.get(name)
        if data is None:
            return self.send_error_text(404)
        if name in self.faults.get("body", {}):
            data = self.faults["body"][name].encode()
        begin = 0
        asked = self.headers.get("Range")
        if asked and not self.faults.get("no_range"):
            begin = int(asked.removeprefix("bytes=").partition("-")[0])
            if self.faults.get("range_refused", {}).get(name) or begin >= len(data):
                return self.send_error_text(416)
            if self.faults.get("bad_range", {}).get(name):
                begin = 0
        self.send_response(206 if asked and not self.faults.get("no_range") else 200)
        self.send_header("X-Repo-Commit", self.repository.commit)
        if asked and not self.faults.get("no_range"):
            self.send_header("Content-Range", "bytes %d-%d/%d" % (begin, len(data) - 1, len(data)))
        if name in self.faults.get("longer", {}):
            data += b"x" * self.faults["longer"][name]
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        return self.send_body(name, data[begin:])

    def send_body(self, name, data):
        cut = self.faults.get("cut", {}).get(name)
        times = self.faults.get("cut_times", {}).get(name, 1 << 30)
        if cut is not None and cut < len(data) and self.repository.count("cut", name) < times:
            self.wfile.write(data[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        pace = self.faults.get("slow", {}).get(name, len(data) or 1)
        for at in range(0, len(data), pace):
            self.wfile.write(data[at:at + pace])
            if pace < len(data):
                time.sleep(0.01)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that went away is what these tests are about


def serve(handler):
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main():
    Handler.repository = Repository(sys.argv[1])
    cdn = type("Cdn", (Handler,), {"is_cdn": True})
    Handler.cdn_port = serve(cdn)
    print(serve(Handler), Handler.repository.commit, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
