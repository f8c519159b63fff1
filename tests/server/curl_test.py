"""curl_test.py THALWEG DOCUMENT...: runs the shell blocks of documents that call curl, and checks that the
answers are what the paths promise."""

import json
import re
import subprocess
import sys

from serving import Serving

WRITTEN = "http://127.0.0.1:8000"


def blocks(document):
    with open(document) as file:
        found = re.findall(r"^```sh\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    return [block for block in found if "curl" in block and WRITTEN in block]


def check(block, output):
    if '"stream": true' in block:
        assert output.rstrip().endswith("data: [DONE]"), output
        output = re.findall(r"^data: (\{.*)$", output, re.MULTILINE)[0]
    answer = json.loads(output)
    assert "error" not in answer or answer["error"] is None, output
    assert any(key in answer for key in ("choices", "content", "output", "data")), output
    if "tool_choice" in block:
        assert answer["choices"][0]["finish_reason"] == "tool_calls", output


def main(program, *documents):
    commands = [block for document in documents for block in blocks(document)]
    assert len(commands) >= 5, f"{documents} have {len(commands)} blocks with curl"
    with Serving(program, "--engine-seed", "1", "--so-whitespace", "compact") as url:
        for block in commands:
            done = subprocess.run(["sh", "-c", block.replace(WRITTEN, url)], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, block + done.stderr
            check(block, done.stdout)
    print(f"{len(commands)} commands")


if __name__ == "__main__":
    main(*sys.argv[1:])
