"""metrics_test.py THALWEG PROMTOOL: /metrics after some traffic, read by Prometheus' own checker. It dislikes the
colon of vLLM's names, which dashboards want; everything else that it says is a failure. What dashboards read is there,
and a scripted model and the program's own have counted each sequence once."""

import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from serving import Serving

SCRIPT = '{"answers": [{"match": "bad", "refuse": {"code": "resource exhausted"}}, {"pieces": ["a", "b"]}]}'
GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]
COUNTERS = ["prompt_tokens_total", "generation_tokens_total", "request_success_total"]
OF_ENGINE = ["prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total"]
# Of each sequence one observation.
OF_SEQUENCES = ["time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                "request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                "request_time_per_output_token_seconds", "request_prompt_tokens", "request_prefill_kv_computed_tokens",
                "request_generation_tokens"]
OF_REQUESTS = ["request_params_max_tokens", "request_params_n"]
OF_TOKENS = ["inter_token_latency_seconds", "time_per_output_token_seconds"]


def ask(url, prompt, sequences):
    body = b'{"prompt": "%s", "n": %d, "max_tokens": 8, "ignore_eos": true}' % (prompt, sequences)
    try:
        urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body)).read()
    except urllib.error.HTTPError as error:
        error.read()


def value(text, name):
    found = re.findall(rf'^vllm:{name}{{model_name="[^"]*",engine="0"[^}}]*}} (\S+)$', text, re.MULTILINE)
    assert found, f"{name} is missing in\n{text}"
    return float(found[0])


def check(promtool, text, names):
    done = subprocess.run([promtool, "check", "metrics"], input=text.encode(), capture_output=True)
    said = (done.stdout + done.stderr).decode().splitlines()
    wrong = [line for line in said if not (line.startswith("vllm:") and line.endswith("should not contain ':'"))]
    # vLLM's name for a histogram.
    wrong = [line for line in wrong if not line.startswith("vllm:iteration_tokens_total ")]
    assert not wrong, "\n".join(wrong)
    for name in names:
        value(text, name)
    for name in OF_SEQUENCES:
        assert value(text, name + "_count") == 4, text
    for name in OF_REQUESTS:
        assert value(text, name + "_count") == 2, text
    for name in OF_TOKENS:
        assert value(text, name + "_count") > 0, text
    assert value(text, "request_params_n_sum") == 4 and value(text, "request_params_max_tokens_sum") == 16
    assert value(text, "request_generation_tokens_sum") == value(text, "generation_tokens_total")


def main(program, promtool):
    with tempfile.NamedTemporaryFile(mode="w", suffix=".json") as script:
        script.write(SCRIPT)
        script.flush()
        for model, names in (["--model", "fake:" + script.name], []), ([], OF_ENGINE):
            with Serving(program, *model) as url:
                for prompt, sequences in (b"good", 1), (b"bad", 1), (b"good", 3):
                    if model or prompt == b"good":
                        ask(url, prompt, sequences)
                text = urllib.request.urlopen(url + "/metrics").read().decode()
            check(promtool, text, GAUGES + COUNTERS + names)
            if not model:
                assert value(text, "iteration_tokens_total_count") >= 8, text
    print(f"{len(text.splitlines())} lines")


if __name__ == "__main__":
    main(*sys.argv[1:])
