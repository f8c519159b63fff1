#!/usr/bin/env python3
"""Makes nano's accuracy sets (tests/data/eval) from its held-out texts (tests/data/nano/heldout.jsonl).

    python3 scripts/make_eval_sets.py

The sets are part of the repository; this says where they came from. docs/evaluation.md has the format.
"""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/data/eval"
USER, ASSISTANT, END = "<｜User｜>", "<｜Assistant｜></think>", "<｜end▁of▁sentence｜>"
DISTRACTORS = 3


def heldout():
    with open(ROOT / "tests/data/nano/heldout.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def turns(document):
    """(text up to the answer, last question, answer) of each turn that is answered without thinking."""
    text = document["text"]
    for match in re.finditer(re.escape(ASSISTANT) + "(.*?)" + re.escape(END), text, re.S):
        before = text[: match.end(0) - len(match.group(1)) - len(END)]
        yield before, before.rsplit(USER, 1)[-1][: -len(ASSISTANT)], match.group(1)


def prompt(before, question):
    """A conversation where one question alone was asked, otherwise the text as it was."""
    if before == "<｜begin▁of▁sentence｜>" + USER + question + ASSISTANT:
        return {"messages": [{"role": "user", "content": question}]}
    return before


def write(name, items):
    path = OUT / f"{name}.jsonl"
    with open(path, "w", encoding="utf-8") as out:
        for i, item in enumerate(items):
            out.write(json.dumps({"id": f"{name}-{i}", **item}, ensure_ascii=False) + "\n")
    print(f"{path.relative_to(ROOT)}: {len(items)} items")


def perplexity(documents):
    return [{"kind": "perplexity", "group": d["kind"], "text": d["text"]} for d in documents[::10]]


def all_turns(documents, kind):
    seen = set()
    for document in documents:
        if document["kind"] == kind:
            for before, question, answer in turns(document):
                if (question, answer) not in seen:
                    seen.add((question, answer))
                    yield before, question, answer


def others(values, right, start):
    """Wrong values: those behind the right one in a fixed order."""
    rest = [v for v in values if v != right]
    return [rest[(start + k) % len(rest)] for k in range(DISTRACTORS)]


def choice_items(group, rows):
    """rows: (before, question, frame with {}, right value). The right choice moves from place to place."""
    values = sorted({row[3] for row in rows})
    items = []
    for i, (before, question, frame, right) in enumerate(rows):
        texts = [frame.format(value) for value in others(values, right, 7 * i)]
        texts.insert(i % (DISTRACTORS + 1), frame.format(right))
        items.append({"kind": "choice", "group": group, "prompt": prompt(before, question), "choices": texts,
                      "answer": i % (DISTRACTORS + 1)})
    return items


def choice(documents):
    rows = {"capitals": [], "order": [], "definitions": [], "retrieval": []}
    for before, question, answer in all_turns(documents, "chat-facts"):
        if match := re.fullmatch(r"(The capital of .* is )(.*)\.", answer):
            rows["capitals"].append((before, question, match[1].replace("{", "") + "{}.", match[2]))
        elif match := re.fullmatch(r"(\w+)( comes (?:after|before) \w+\.)", answer):
            rows["order"].append((before, question, "{}" + match[2], match[1]))
    for before, question, answer in all_turns(documents, "chat-dict"):
        if (match := re.fullmatch(r'(".*" is an? noun\. It means: )([^{}]*)', answer)) and "{" not in match[1]:
            rows["definitions"].append((before, question, match[1] + "{}", match[2]))
    for before, question, answer in all_turns(documents, "chat-needle"):
        if (match := re.search(r"secret number of", question)) and answer.strip(".").split()[-1].isdigit():
            number = re.search(r"\d+", answer)[0]
            rows["retrieval"].append((before, question, answer.replace(number, "{}"), number))
    most = {"capitals": 24, "order": 16, "definitions": 24, "retrieval": 8}
    return [item for group, found in rows.items() for item in choice_items(group, found[: most[group]])]


def exact(documents):
    items = []

    def add(kind, most, **more):
        rows = list(all_turns(documents, kind))[:most]
        for before, question, answer in rows:
            items.append({"kind": "exact", "group": kind.removeprefix("chat-"), "prompt": prompt(before, question),
                          "answer": answer, **more})

    add("chat-arith", 24, extract="number")
    add("chat-facts", 24, normalise=["space", "case", "punctuation"])
    add("chat-copy", 24)
    add("chat-needle", 8, normalise=["space", "punctuation"], params={"max_tokens": 64})
    return items


def schema_of(value):
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": "object", "properties": {k: {"type": kinds[type(v)]} for k, v in value.items()},
            "required": list(value), "additionalProperties": False}


def schema(documents):
    items = []
    for before, question, answer in all_turns(documents, "chat-json"):
        value = json.loads(answer)
        if not isinstance(value, dict) or any(isinstance(v, (dict, list)) for v in value.values()):
            continue
        for constrained in (False, True):
            items.append({"kind": "schema", "group": "constrained" if constrained else "free",
                          "prompt": prompt(before, question), "schema": schema_of(value), "constrained": constrained,
                          "answer": value})
    return items


def main():
    documents = heldout()
    OUT.mkdir(parents=True, exist_ok=True)
    write("perplexity", perplexity(documents))
    write("choice", choice(documents))
    write("exact", exact(documents))
    write("schema", schema(documents))


if __name__ == "__main__":
    main()
