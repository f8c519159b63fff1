#!/usr/bin/env python3
"""Writes random.jsonl: turns made at random, spelled as a model might spell them.

What has to come out is known from how a turn was made, not from a decoder. Run without arguments; the
seed is fixed, so the file is the same every time.
"""

import json
import pathlib
import random

BARS = "｜DSML｜"
WORDS = ["yes", "the", "tool", "北京", "naïve", "🎉", "<b>", "</", "<｜", "a\nb", "\n\n", " ", "{}", "\"q\"",
         "\\", "DSML", "x>y", "｜", "</thin", "```", "invoke", "parameter name", "\t", "1.5", "日本語", "<"]
NAMES = ["get_weather", "f", "weather::current", "apply-patch", "t0"]
KEYS = ["location", "days", "shipping address", " string= mode ", "", "a\\b", "ключ", "x.y[0]", "a>b", "</x>"]
JSON_VALUES = ["3", "-1.5e-07", "true", "null", "[1, 2, \"x\"]", "{\"a\": {\"b\": []}}", "\"text\"", "[]", "{\"<\": \"｜\"}"]
NOT_JSON = ["Paris", "{'a': 1}", "[1, 2", "1,5", "nan", "", "\"x", "{\"a\": 1,}"]
TRICKY = ["</｜DSML｜ x", "<｜DSML｜ invoke name=\"g\">", "</｜DSML｜ parameter> so", "</｜DSML｜", "</think>",
          "a</｜DSML｜ calls> b", "</｜DSML｜invoke>.", "STOP"]


def text(dice, most):
    return "".join(dice.choice(WORDS) for _ in range(dice.randint(0, most)))


class Spelling:
    """One way to write tags; sloppy ones are what models were seen to write."""

    def __init__(self, dice):
        self.space = dice.choice([" ", " ", ""])
        self.block = dice.choice(["calls", "calls", "calls", "tool_calls", "toolcalls", "function_calls"])
        self.bars = dice.choice([BARS] * 5 + ["|DSML|"])
        self.line = dice.choice(["\n", "\n", "", "\n\n", " "])
        self.has_opener = dice.random() < 0.9
        self.has_closer = dice.random() < 0.85
        self.has_invoke_closer = dice.random() < 0.9

    def tag(self, name):
        return f"<{self.bars}{self.space}{name}>"

    def close(self, name):
        return f"</{self.bars}{self.space}{name}>"


def parameter(dice, spelling, key, faults):
    """A parameter as written and as it must come out."""
    if dice.random() < 0.5:
        value = text(dice, 6)
        if dice.random() < 0.3:
            value += dice.choice(TRICKY) + text(dice, 2) + "."
        kind, out = "true", json.dumps(value, ensure_ascii=False)
    elif dice.random() < 0.8:
        value = dice.choice(JSON_VALUES)
        kind, out = "false", value
        value = dice.choice(["", "\n", " "]) + value + dice.choice(["", "\n"])
    else:
        value = dice.choice(NOT_JSON)
        kind, out = "false", json.dumps(value, ensure_ascii=False)
        faults["mended_values"] = faults.get("mended_values", 0) + 1
    name = f"parameter name=\"{key}\" string=\"{kind}\""
    written = spelling.tag(name) + value + spelling.close("parameter")
    return written, f"{json.dumps(key, ensure_ascii=False)}: {out}"


def call(dice, spelling, last, faults):
    name = dice.choice(NAMES)
    keys = dice.sample(KEYS, dice.randint(0, 3))
    parts = [parameter(dice, spelling, key, faults) for key in keys]
    lines = [spelling.tag(f"invoke name=\"{name}\"")] + [part[0] for part in parts]
    # Where the next tag says that the call is over, its own closing tag may be missing.
    if spelling.has_invoke_closer or (last and not spelling.has_closer and not keys):
        lines.append(spelling.close("invoke"))
    return spelling.line.join(lines), [name, "{" + ", ".join(part[1] for part in parts) + "}", True]


def block(dice, faults):
    spelling = Spelling(dice)
    count = dice.randint(1, 3)
    made = [call(dice, spelling, i == count - 1, faults) for i in range(count)]
    lines = [spelling.tag(spelling.block)] if spelling.has_opener else []
    lines += [written for written, _ in made]
    if spelling.has_closer:
        lines.append(spelling.close(spelling.block))
    return spelling.line.join(lines), [out for _, out in made]



def turn(dice, number):
    options, faults, pieces, expect = {"tools": True}, {}, [], {}
    tokens = dice.random() < 0.3
    if tokens:
        options["spelled_think"] = False
    if dice.random() < 0.6:
        options["start"] = "reasoning"
        reasoning = text(dice, 10)
        expect["reasoning"] = reasoning.strip("\n")
        pieces += [reasoning, {"mark": "end_think"} if tokens else "</think>"]
    content = text(dice, 10)
    calls = []
    stop = None
    if dice.random() < 0.25:
        stop = dice.choice(["STOP", "終了", "###", "</a>", "##"])
        options["stop"] = [stop, "never-said"]
        behind = text(dice, 3)
        pieces.append(content + stop + behind)
        content = content.lstrip("\n")
        faults["ignored_bytes"] = len(behind.encode())
    elif dice.random() < 0.75:
        written, calls = block(dice, faults)
        pieces += [content, "\n" * dice.randint(0, 3), written]
        content = content.strip("\n")
    else:
        pieces.append(content)
        content = content.lstrip("\n")
    expect |= {"content": content, "calls": calls, "reason": "tool_calls" if calls else "stop"}
    if stop:
        expect["stop_string"] = stop
    expect["faults"] = {name: count for name, count in faults.items() if count}
    return {"name": f"random {number}", "source": "made at random", "options": options,
            "input": pieces, "reason": "stop", "expect": {k: v for k, v in expect.items() if v}}


def main():
    dice = random.Random(20260101)
    lines = [json.dumps(turn(dice, i), ensure_ascii=False) for i in range(250)]
    pathlib.Path(__file__).with_name("random.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
