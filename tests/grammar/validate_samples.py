#!/usr/bin/env python3
"""Validates text that was drawn through the masks of JSON Schemas with an independent validator.

  validate_samples.py GENERATOR DIRECTORY SAMPLES [SEED]

runs GENERATOR (schema_samples) over the schemas of DIRECTORY, SAMPLES times each, and checks every text
with python3-jsonschema. Prints what is wrong and a summary. Ends with 1 when a text is not valid, when a
schema brings no text at all, and with 77 (skipped) when python3-jsonschema is missing.
"""
import collections
import datetime
import decimal
import json
import pathlib
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is missing")
    sys.exit(77)

MAX_SHOWN = 20


decimal.getcontext().prec = 2000


def exact(text):
    """A number with a fraction or an exponent, not rounded to binary; whole ones are integers."""
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:  # an exponent of 20 digits
        return float(text)
    whole = value.adjusted() < 400 and value == value.to_integral_value()
    return int(value) if whole else value


def is_time(text):
    """RFC 3339 full-time; Python has no leap seconds. Which of them there can be, a unit test checks."""
    datetime.time.fromisoformat(text.upper().replace(":60", ":59"))
    return text[-1] in "zZ" or text[-6] in "+-"


def is_date(text):
    # Year 0 is one to RFC 3339, and as long as year 4.
    datetime.date.fromisoformat("0004" + text[4:] if text.startswith("0000") else text)
    return len(text) == 10


def format_checker():
    """That of jsonschema, except for what it reads otherwise than RFC 3339 does."""
    checker = jsonschema.FormatChecker()
    for name, check in {"time": is_time, "date": is_date,
                        "date-time": lambda text: is_date(text[:10]) and is_time(text[11:])}.items():
        checker.checks(name, raises=ValueError)(
            lambda value, check=check: not isinstance(value, str) or check(value))
    return checker


def validator_of(schema):
    kind = jsonschema.Draft202012Validator
    if isinstance(schema, dict) and "draft-0" in str(schema.get("$schema", "")):
        kind = jsonschema.Draft7Validator
    return kind(schema, format_checker=format_checker())


def problem_of(text, validator):
    """What is wrong with a text, or None."""
    try:
        value = json.loads(text, parse_float=exact)
    except ValueError as error:
        return f"no JSON: {error}"
    if "\ud800" <= max(text, default="") <= "\udfff":
        return "a lone surrogate"
    error = next(validator.iter_errors(value), None)
    return error and f"{error.message[:200]} at {list(error.absolute_path)}"


def main():
    generator, directory, samples = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    seed = sys.argv[4] if len(sys.argv) > 4 else "1"
    process = subprocess.Popen([generator, str(directory), samples, seed], stdout=subprocess.PIPE, text=True)
    counts = collections.Counter()
    finished = collections.Counter()
    validators = {}
    for line in process.stdout:
        record = json.loads(line)
        name = record["file"]
        if "refused" in record:
            counts["refused"] += 1
            print(f"refused: {name}: {record['refused']}")
        if "unfinished" in record:
            counts["unfinished"] += record["unfinished"]
            finished[name] += 0
        if "text" not in record:
            continue
        if name not in validators:
            validators[name] = validator_of(json.loads((directory / name).read_text(), parse_float=exact)["schema"])
        finished[name] += 1
        try:
            problem = problem_of(record["text"], validators[name])
        except re.error:  # a pattern that Python's expressions do not know
            counts["unjudged"] += 1
            continue
        counts["samples"] += 1
        if problem:
            counts["invalid"] += 1
            if counts["invalid"] <= MAX_SHOWN:
                print(f"INVALID: {name}: {problem}\n  {record['text'][:500]}")
    empty = [name for name, count in finished.items() if count == 0]
    for name in empty:
        print(f"no finished text: {name}")
    print(f"{counts['samples']} samples of {len(finished)} schemas: {counts['invalid']} invalid, "
          f"{counts['unfinished']} unfinished, "
          f"{counts['unjudged']} that Python cannot judge; {counts['refused']} schemas refused")
    failed = process.wait() != 0 or counts["invalid"] or empty or not counts["samples"]
    sys.exit(1 if failed else 0)


main()
