"""A server of this tree for tests: started on a free port, stopped at the end."""

import re
import subprocess
import tempfile
import time


class Serving:
    """`with Serving(program, args...) as url:`; the model is the program's own unless args name one."""

    def __init__(self, program, *arguments):
        self.command = [program, "serve", "--port", "0", *arguments]

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile(mode="w+")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r" at (http://[0-9.:]+)$", self.text(), re.MULTILINE)
            if found:
                return found.group(1)
            time.sleep(0.05)
        self.process.kill()
        raise SystemExit("the server did not start:\n" + self.text())

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        if code != 0:
            raise SystemExit(f"the server ended with {code}:\n" + self.text())
