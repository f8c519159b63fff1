"""metrics_test.py THALWEG PROMTOOL: /metrics after some traffic, read by Prometheus' own checker. It dislikes the
colon of vLLM's names, which dashboards want; everything else that it says is a failure."""

import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from serving import Serving

SCRIPT = '{"answers": [{"match": "bad", "refuse": {"code": "resource exhausted"}}, {"pieces": ["a", "b"]}]}'


def ask(url, prompt):
    body = b'{"prompt": "%s"}' % prompt
    try:
        urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body)).read()
    except urllib.error.HTTPError as error:
        error.read()


def main(program, promtool):
    with tempfile.NamedTemporaryFile(mode="w", suffix=".json") as script:
        script.write(SCRIPT)
        script.flush()
        with Serving(program, "--model", "fake:" + script.name) as url:
            for prompt in (b"good", b"bad", b"good"):
                ask(url, prompt)
            text = urllib.request.urlopen(url + "/metrics").read()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    said = (done.stdout + done.stderr).decode().splitlines()
    wrong = [line for line in said if not (line.startswith("vllm:") and line.endswith("should not contain ':'"))]
    assert not wrong, "\n".join(wrong)
    assert b"vllm:generation_tokens_total" in text
    print(f"{len(text.splitlines())} lines")


if __name__ == "__main__":
    main(*sys.argv[1:])
