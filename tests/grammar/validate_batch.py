#!/usr/bin/env python3
"""What a model writes under so_args, checked by python3-jsonschema: validate_batch.py THALWEG CORPUS [N].

Asks nano N times for each schema of the corpus through `thalweg batch`, sampled, and validates every answer that
was not cut. Schemas that are refused are counted. Exit code 1: an answer is not valid, or a request failed;
77: python3-jsonschema is not there.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def formats():
    """Older versions keep it elsewhere."""
    own = getattr(jsonschema.Draft202012Validator, "FORMAT_CHECKER", None)
    return own or jsonschema.draft202012_format_checker


def lines_for(corpus, times):
    for file in sorted(corpus.glob("*.json")):
        schema = json.loads(file.read_text())["schema"]
        for i in range(times):
            yield {"custom_id": f"{file.name}#{i}", "temperature": 1, "seed": i + 1, "max_tokens": 400,
                   "messages": [{"role": "user", "content": "Write " + file.stem.replace("_", " ") + "."}],
                   "so_args": {"type": "json_schema", "content": json.dumps(schema)}}


def main():
    program, corpus = sys.argv[1], pathlib.Path(sys.argv[2])
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory() as folder:
        requests, answers = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        requests.write_text("".join(json.dumps(line) + "\n" for line in lines_for(corpus, times)))
        code = subprocess.run([program, "batch", str(requests), str(answers)]).returncode
        assert code in (0, 1), code
        results = [json.loads(line) for line in answers.read_text().splitlines()]
    counts, wrong = collections.Counter(), []
    for result in results:
        schema = json.loads((corpus / result["custom_id"].split("#")[0]).read_text())["schema"]
        if "error" in result:
            kind = "refused" if result["error"]["code"] == "unsupported" else "failed"
        elif result["finish_reason"] != "stop":
            kind = "cut"
        else:
            checker = jsonschema.Draft202012Validator(schema, format_checker=formats())
            kind = "valid" if checker.is_valid(json.loads(result["text"])) else "not valid"
        counts[kind] += 1
        if kind in ("not valid", "failed"):
            wrong.append(result)
    print(dict(counts))
    for result in wrong[:20]:
        print(json.dumps(result)[:500])
    sys.exit(1 if wrong else 0)


main()
