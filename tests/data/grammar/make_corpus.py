#!/usr/bin/env python3
"""Writes the corpus of `thalweg grammar bench`: make_corpus.py OUT.

Schemas are those of tools.txt and configs.txt beside this file, unions of tools as a model is offered
them, and families that the functions below make: recursion, depth, width, strings, numbers, arrays,
combinations. What an instance is worth is said by python3-jsonschema, not by who made it. Members of
instances stand in the order of the schema. The same seed gives the same files.
"""

import json
import pathlib
import random
import re
import sys

import jsonschema
import re._parser as sre

HERE = pathlib.Path(__file__).parent
DRAFT = "https://json-schema.org/draft/2020-12/schema"
WORDS = ("alpha river stone Lantern quick 7 grüne 東京 cloud-9 naïve Paris über \"quoted\" back\\slash tab\there "
         "emoji😀 x y zebra market Österreich one two three four long winding valley thalweg").split(" ")


# --- The notation of tools.txt -------------------------------------------------------------------


class Notation:
    PLAIN = {
        "any": {}, "bool": {"type": "boolean"}, "date": {"type": "string", "format": "date"},
        "datetime": {"type": "string", "format": "date-time"}, "time": {"type": "string", "format": "time"},
        "email": {"type": "string", "format": "email"}, "uuid": {"type": "string", "format": "uuid"},
        "uri": {"type": "string", "format": "uri"}, "ipv4": {"type": "string", "format": "ipv4"},
        "hostname": {"type": "string", "format": "hostname"}, "duration": {"type": "string", "format": "duration"},
        "str": {"type": "string"}, "int": {"type": "integer"}, "num": {"type": "number"},
    }

    def __init__(self, text, closed):
        self.text, self.at, self.closed = text, 0, closed

    def eat(self, token):
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token):
        assert self.eat(token), f"{token!r} is due at {self.text[self.at:self.at + 30]!r}"

    def match(self, pattern):
        found = re.compile(pattern).match(self.text, self.at)
        assert found, f"{pattern} is due at {self.text[self.at:self.at + 30]!r}"
        self.at = found.end()
        return found

    def range(self):
        found = re.compile(r"(-?[0-9.]+?)\.\.(-?[0-9.]+)").match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        return [json.loads(x) for x in found.groups()]

    def fields(self):
        self.need("(")
        out = {"type": "object", "properties": {}, "required": []}
        while not self.eat(")"):
            name = self.match(r"[A-Za-z_0-9]+").group()
            if self.eat("!"):
                out["required"].append(name)
            self.need(":")
            out["properties"][name] = self.type()
            self.eat(", ")
        if not out["required"]:
            del out["required"]
        if self.closed:
            out["additionalProperties"] = False
        return out

    def choices(self):
        body = self.match(r"\{((?:\\.|[^}])*)\}").group(1).replace("\\/", "/")
        values = body.split("|")
        return {"enum": [int(v) if v.isdigit() else v for v in values]}

    def array(self):
        self.need("[")
        out = {"type": "array", "items": self.type()}
        if self.eat(" "):
            out["minItems"], out["maxItems"] = self.range()
        self.need("]")
        return out

    def simple(self):
        name = self.match(r"[a-z0-9]+").group()
        out = dict(self.PLAIN[name])
        if name == "str" and self.eat("/"):
            out["pattern"] = "^(?:" + self.match(r"((?:\\.|[^/])*)/").group(1).replace("\\/", "/") + ")$"
        elif self.eat("["):
            low, high = self.range()
            keys = ("minLength", "maxLength") if name == "str" else ("minimum", "maximum")
            out.update(zip(keys, (low, high)))
            self.need("]")
        return out

    def type(self):
        next_ = self.text[self.at]
        if next_ == "(":
            out = self.fields()
        elif next_ == "{":
            out = self.choices()
        elif next_ == "[":
            out = self.array()
        elif self.eat("<"):
            out = {"type": "object", "additionalProperties": self.type()}
            self.need(">")
        else:
            out = self.simple()
        return {"anyOf": [out, {"type": "null"}]} if self.eat("?") else out


def read_notation(file, closed):
    for line in (HERE / file).read_text().splitlines():
        if line and not line.startswith("#"):
            name = line[:line.index("(")]
            yield name, Notation(line[len(name):], closed).type()


# --- Instances -----------------------------------------------------------------------------------


class Maker:
    """Instances of a schema, as good as it can; the validator has the last word."""

    FORMATS = {
        "date": lambda r: f"{r.randint(1900, 2099)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
        "time": lambda r: f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}Z",
        "date-time": lambda r: Maker.FORMATS["date"](r) + "T" + Maker.FORMATS["time"](r),
        "email": lambda r: f"{r.choice(['ann', 'bob.c', 'x_1'])}@{r.choice(['example.org', 'mail.test.net'])}",
        "uuid": lambda r: "-".join("".join(r.choice("0123456789abcdef") for _ in range(n)) for n in (8, 4, 4, 4, 12)),
        "uri": lambda r: f"https://{r.choice(['example.org', 'a.b.example'])}/{r.choice(['', 'p/q', 'x?y=1', 'i#f'])}",
        "ipv4": lambda r: ".".join(str(r.randint(0, 255)) for _ in range(4)),
        "ipv6": lambda r: r.choice(["::1", "2001:db8::8a2e:370:7334", "fe80::1:2"]),
        "hostname": lambda r: r.choice(["example.org", "db-1.internal", "localhost", "a.b.c.d"]),
        "duration": lambda r: r.choice(["P1D", "PT5M", "P3Y6M4DT12H30M5S", "PT36H", "P2W"]),
    }

    def __init__(self, schema, rng):
        self.root, self.rng = schema, rng

    def resolve(self, ref):
        at = self.root
        for step in ref.lstrip("#").strip("/").split("/"):
            at = at[step.replace("~1", "/").replace("~0", "~")] if step else at
        return at

    def weight(self, schema):
        """Ends are lighter than what goes on."""
        text = json.dumps(schema)
        return text.count("$ref"), len(text)

    def merge(self, parts):
        out = {}
        for part in parts:
            part = self.resolve(part["$ref"]) if "$ref" in part else part
            for key, value in part.items():
                if key == "properties":
                    out.setdefault(key, {}).update(value)
                elif key == "required":
                    out[key] = out.get(key, []) + value
                elif key in ("minimum", "minLength", "minItems"):
                    out[key] = max(out.get(key, value), value)
                elif key in ("maximum", "maxLength", "maxItems"):
                    out[key] = min(out.get(key, value), value)
                else:
                    out[key] = value
        return out

    def make(self, s, depth=0):
        if s is True or s == {}:
            return self.rng.choice([None, True, 3, -2.5, "any", [], {"k": [1]}])
        if "$ref" in s:
            return self.make(self.resolve(s["$ref"]), depth)
        if "const" in s:
            return s["const"]
        if "enum" in s:
            return self.rng.choice(s["enum"])
        for key in ("oneOf", "anyOf"):
            if key in s:
                rest = {k: v for k, v in s.items() if k != key}
                options = s[key] if depth < 6 else sorted(s[key], key=self.weight)[:1]
                return self.make(self.merge([rest, self.rng.choice(options)]), depth)
        if "allOf" in s:
            return self.make(self.merge([{k: v for k, v in s.items() if k != "allOf"}] + s["allOf"]), depth)
        if "if" in s:
            rest = {k: v for k, v in s.items() if k not in ("if", "then", "else")}
            yes = self.rng.random() < 0.5
            branch = self.merge([s["if"], s.get("then", {})]) if yes else s.get("else", {})
            return self.make(self.merge([rest, branch]), depth)
        kind = s.get("type", "object" if "properties" in s else "string" if "pattern" in s else "array"
                     if "items" in s or "prefixItems" in s else "string")
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        return getattr(self, "make_" + kind)(s, depth)

    def make_null(self, s, depth):
        return None

    def make_boolean(self, s, depth):
        return self.rng.random() < 0.5

    def make_integer(self, s, depth):
        low = s.get("minimum", s.get("exclusiveMinimum", s.get("maximum", 0) - 1000) + ("exclusiveMinimum" in s))
        high = s.get("maximum", s.get("exclusiveMaximum", low + 2000) - ("exclusiveMaximum" in s))
        step = s.get("multipleOf", 1)
        if self.rng.random() < 0.3:
            return int(-(-low // step) * step) if self.rng.random() < 0.5 else int(high // step * step)
        return int(self.rng.randint(int(-(-low // step)), int(high // step)) * step)

    def make_number(self, s, depth):
        if "multipleOf" in s or self.rng.random() < 0.3:
            step = s.get("multipleOf", 1)
            low, high = s.get("minimum", -100), s.get("maximum", 100)
            count = self.rng.randint(int(low / step) + 1, max(int(high / step) - 1, int(low / step) + 1))
            return round(count * step, 6)
        low = s.get("minimum", s.get("exclusiveMinimum", -1000))
        high = s.get("maximum", s.get("exclusiveMaximum", 1000))
        return round(self.rng.uniform(low, high), self.rng.choice([1, 2, 4]))

    def make_string(self, s, depth):
        if "format" in s:
            return self.FORMATS[s["format"]](self.rng)
        if "pattern" in s:
            return self.sample(sre.parse(s["pattern"]))
        low, high = s.get("minLength", 0), s.get("maxLength", None)
        text = " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(0 if low == 0 else 1, 8)))
        while len(text) < low:
            text += " " + self.rng.choice(WORDS)
        return text if high is None else text[:high]

    def sample(self, tree):
        out = ""
        for op, arg in tree:
            name = str(op)
            if name == "LITERAL":
                out += chr(arg)
            elif name == "NOT_LITERAL":
                out += "q" if arg != ord("q") else "r"
            elif name == "ANY":
                out += self.rng.choice("aZ9 é")
            elif name == "IN":
                out += self.sample_set(arg)
            elif name == "BRANCH":
                out += self.sample(self.rng.choice(arg[1]))
            elif name == "SUBPATTERN":
                out += self.sample(arg[3])
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                low, high, of = arg
                for _ in range(self.rng.randint(low, min(int(high), low + 6))):
                    out += self.sample(of)
        return out

    def sample_set(self, items):
        sets = {"CATEGORY_DIGIT": "0159", "CATEGORY_WORD": "aZ_7", "CATEGORY_SPACE": " ", "CATEGORY_NOT_SPACE": "aZ_-é"}
        if str(items[0][0]) == "NEGATE":
            return self.rng.choice([c for c in "abcXYZ0189_" if not re.match("[" + "".join(
                chr(a) if str(o) == "LITERAL" else "" for o, a in items[1:]).replace("\\", "\\\\") + "~]", c)])
        op, arg = self.rng.choice(items)
        if str(op) == "LITERAL":
            return chr(arg)
        if str(op) == "RANGE":
            return chr(self.rng.randint(*arg))
        return self.rng.choice(sets[str(arg)])

    def make_array(self, s, depth):
        out = [self.make(one, depth + 1) for one in s.get("prefixItems", [])]
        items = s.get("items", {} if "prefixItems" not in s else False)
        low = max(s.get("minItems", 0), s.get("minContains", 1) if "contains" in s else 0)
        high = s.get("maxItems", low + (4 if depth < 4 else 0))
        if items is not False:
            for _ in range(max(0, self.rng.randint(low, min(high, low + 5)) - len(out))):
                one = s["contains"] if "contains" in s and self.rng.random() < 0.6 else items
                out.append(self.make(one, depth + 1))
        return out

    def make_object(self, s, depth):
        out, required = {}, s.get("required", [])
        share = 0.7 if depth < 3 else 0.3 if depth < 6 else 0
        for name, of in s.get("properties", {}).items():
            if of is not False and (name in required or self.rng.random() < share):
                out[name] = self.make(of, depth + 1)
        for pattern, of in s.get("patternProperties", {}).items():
            for _ in range(self.rng.randint(0, 2)):
                out.setdefault(self.sample(sre.parse(pattern)), self.make(of, depth + 1))
        extra = s.get("additionalProperties", True)
        if isinstance(extra, dict) or (extra and not s.get("properties") and "propertyNames" in s):
            wanted = max(self.rng.randint(0, 3), s.get("minProperties", 0) - len(out))
            names = s.get("propertyNames", {"pattern": "^[a-z]{1,6}$", "type": "string"})
            for _ in range(wanted):
                of = extra if isinstance(extra, dict) else {}
                out.setdefault(str(self.make(names, depth + 1)), self.make(of, depth + 1))
        return out


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, path + (key,))
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from places(one, path + (i,))


def spoil(value, rng):
    """The value with one thing changed somewhere."""
    value = json.loads(json.dumps(value))
    path = rng.choice(list(places(value)))
    holder = [value]
    key, parent = 0, holder
    for step in path:
        parent, key = parent[key], step
    old = parent[key]
    changes = ["type", "type"]
    if isinstance(old, dict):
        changes += ["drop", "drop", "extra", "extra"]
    if isinstance(old, list):
        changes += ["longer", "shorter", "element"]
    if isinstance(old, str):
        changes += ["text", "cut", "long"]
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        changes += ["far", "near", "fraction"]
    change = rng.choice(changes)
    if change == "type":
        parent[key] = rng.choice([None, "?", 12345678901, -0.5, [], {}, True, [[]], {"": None}])
    elif change == "drop" and old:
        del old[rng.choice(list(old))]
    elif change == "extra":
        old[rng.choice(["extra", "x-y", "zz", "id"])] = rng.choice([1, "v", None])
    elif change == "longer":
        old.extend(old[-1:] * rng.choice([1, 30, 600]))
    elif change == "shorter" and old:
        old.pop(rng.randrange(len(old)))
    elif change == "element":
        old.append(rng.choice([None, "?", 5]))
    elif change == "text":
        parent[key] = old + rng.choice(["!", "0", "x", " "])
    elif change == "cut":
        parent[key] = old[:-1]
    elif change == "long":
        parent[key] = (old or "a") * 200
    elif change == "far":
        parent[key] = old + rng.choice([-1, 1]) * 10 ** rng.randint(3, 12)
    elif change == "near":
        parent[key] = old + rng.choice([-1, 1])
    elif change == "fraction":
        parent[key] = old + 0.25
    return holder[0]


# --- Families ------------------------------------------------------------------------------------

S = {"type": "string"}
I = {"type": "integer"}


def obj(properties, required=None, closed=True, **more):
    out = {"type": "object", "properties": properties}
    if required is not None:
        out["required"] = required
    if closed:
        out["additionalProperties"] = False
    return {**out, **more}


def recursion():
    ref = {"$ref": "#"}
    yield "linked_list", obj({"value": I, "next": {"anyOf": [ref, {"type": "null"}]}}, ["value", "next"])
    yield "tree", obj({"name": S, "children": {"type": "array", "items": ref}}, ["name"])
    yield "binary_tree", obj({"key": I, "left": ref, "right": ref}, ["key"])
    yield "expression", {"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [
        {"type": "number"}, obj({"op": {"enum": ["+", "-", "*", "/"]}, "left": {"$ref": "#/$defs/e"},
                                 "right": {"$ref": "#/$defs/e"}}, ["op", "left", "right"])]}}}
    yield "json_value", {"$ref": "#/$defs/v", "$defs": {"v": {"anyOf": [
        {"type": ["null", "boolean", "number", "string"]}, {"type": "array", "items": {"$ref": "#/$defs/v"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/v"}}]}}}
    yield "files", {"$ref": "#/$defs/dir", "$defs": {
        "file": obj({"kind": {"const": "file"}, "name": S, "bytes": {"type": "integer", "minimum": 0}}, ["kind", "name"]),
        "dir": obj({"kind": {"const": "dir"}, "name": S, "entries": {"type": "array", "items": {"anyOf": [
            {"$ref": "#/$defs/file"}, {"$ref": "#/$defs/dir"}]}}}, ["kind", "name", "entries"])}}
    yield "thread", obj({"author": S, "text": S, "likes": I, "replies": {"type": "array", "items": ref, "maxItems": 4}},
                        ["author", "text"])
    yield "lisp", {"anyOf": [S, I, {"type": "array", "items": ref}]}
    for n in (2, 3, 4):
        defs = {f"n{i}": obj({"id": I, "link": {"anyOf": [{"$ref": f"#/$defs/n{(i + 1) % n}"}, {"type": "null"}]}},
                             ["id", "link"]) for i in range(n)}
        yield f"mutual_{n}", {"$ref": "#/$defs/n0", "$defs": defs}
    yield "query", {"$ref": "#/$defs/q", "$defs": {"q": {"oneOf": [
        obj({"term": obj({"field": S, "value": S}, ["field", "value"])}, ["term"]),
        obj({"and": {"type": "array", "items": {"$ref": "#/$defs/q"}, "minItems": 1}}, ["and"]),
        obj({"or": {"type": "array", "items": {"$ref": "#/$defs/q"}, "minItems": 1}}, ["or"]),
        obj({"not": {"$ref": "#/$defs/q"}}, ["not"])]}}}
    yield "ui", {"$ref": "#/$defs/node", "$defs": {"node": obj({
        "type": {"enum": ["div", "button", "header", "section", "field", "form"]}, "label": S,
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "attributes": {"type": "array", "items": obj({"name": S, "value": S}, ["name", "value"])}}, ["type", "label"])}}
    yield "state_machine", obj({"initial": S, "states": {"type": "object", "additionalProperties": {"$ref": "#/$defs/state"}}},
                               ["initial", "states"], **{"$defs": {"state": obj(
                                   {"on": {"type": "object", "additionalProperties": S}, "states": {
                                       "type": "object", "additionalProperties": {"$ref": "#/$defs/state"}}})}})


def depth():
    for n in (4, 8, 12, 16, 24, 32, 40):
        s = obj({"leaf": S, "count": I}, ["leaf"])
        for i in range(n):
            s = obj({f"level_{i}": s, "note": S}, [f"level_{i}"])
        yield f"objects_{n}", s
    for n in (3, 6, 10, 15, 20):
        s = I
        for _ in range(n):
            s = {"type": "array", "items": s, "minItems": 1, "maxItems": 2}
        yield f"arrays_{n}", s
    for n in (3, 6, 9):
        s = S
        for i in range(n):
            s = {"type": "array", "items": obj({f"k{i}": s}, [f"k{i}"])} if i % 2 else obj({f"m{i}": s, "n": I})
        yield f"mixed_{n}", s


def width(rng):
    kinds = [S, I, {"type": "boolean"}, {"type": "number"}, {"type": "array", "items": S}, {"enum": ["a", "b", "c"]}]
    for n in (20, 50, 100, 200):
        names = [f"{rng.choice(WORDS[:3])}_{rng.choice(['max', 'min', 'of', 'is'])}_{i}" for i in range(n)]
        properties = {name: rng.choice(kinds) for name in names}
        yield f"optional_{n}", obj(properties, [])
        yield f"required_{n}", obj(properties, names)
        yield f"half_{n}", obj(properties, names[::2], closed=False)
    for n in (10, 50, 100, 250, 500, 1000):
        yield f"enum_{n}", {"enum": [f"{rng.choice(['Item', 'item', 'Ä', 'x y'])} {rng.randint(0, 10 ** 6)}" for _ in range(n)]}
    for n in (2, 5, 10, 20, 40):
        for key in ("anyOf", "oneOf"):
            yield f"{key}_{n}", {key: [obj({"kind": {"const": f"kind_{i}"}, f"value_{i % 7}": rng.choice(kinds),
                                            "note": S}, ["kind", f"value_{i % 7}"]) for i in range(n)]}
    for n in (10, 30, 60):
        defs = {f"d{i}": obj({"v": rng.choice(kinds), **({"next": {"$ref": f"#/$defs/d{i + 1}"}} if i + 1 < n else {})}, ["v"])
                for i in range(n)}
        yield f"defs_{n}", {"$ref": "#/$defs/d0", "$defs": defs}


def strings():
    for low, high in ((0, 0), (1, 1), (0, 10), (3, 30), (10, 100), (1, 1000), (100, 200), (0, 5000)):
        yield f"length_{low}_{high}", obj({"s": {"type": "string", "minLength": low, "maxLength": high}}, ["s"])
    patterns = ("^[a-z]+$", "^[A-Z]{2}[0-9]{6}$", "^(red|green|blue)$", "^#([0-9a-f]{3}|[0-9a-f]{6})$", "^\\d{3}-\\d{4}$",
                "^\\w+@\\w+\\.(com|org|net)$", "^v?\\d+\\.\\d+\\.\\d+(-[a-z0-9.]+)?$", "^[^/]+/[^/]+$", "^.{5}$", "^(ab|cd)*$",
                "^[0-9]{1,3}(,[0-9]{3})*(\\.[0-9]+)?$", "^\\+?[1-9]\\d{1,14}$", "^[A-Za-zäöüß ]{1,40}$", "^(?:[01]\\d|2[0-3]):[0-5]\\d$",
                "^[a-z0-9]+(?:-[a-z0-9]+)*$", "^0x[0-9a-fA-F]{1,16}$", "^(a{2,5}b?){1,3}$", "^SKU-[A-Z]{3}-\\d{4}-(S|M|L|XL)$",
                "^\\S+$", "^[\\u4e00-\\u9fff]{1,8}$")
    for i, pattern in enumerate(patterns):
        yield f"pattern_{i}", obj({"id": I, "s": {"type": "string", "pattern": pattern}}, ["s"])
    for name in Maker.FORMATS:
        yield f"format_{name}", obj({"a": {"type": "string", "format": name}, "b": {
            "type": "array", "items": {"type": "string", "format": name}}}, ["a"])


def numbers():
    for i, (low, high) in enumerate(((0, 9), (1, 12), (0, 255), (-5, 5), (-1000, 1000), (17, 4711), (0, 10 ** 9), (-273, 10 ** 6))):
        yield f"integer_{i}", obj({"n": {"type": "integer", "minimum": low, "maximum": high}}, ["n"])
    for i, bounds in enumerate(({"minimum": 0}, {"maximum": 0}, {"minimum": 0, "maximum": 1}, {"exclusiveMinimum": 0},
                                {"minimum": -2.5, "maximum": 7.25}, {"exclusiveMinimum": -1, "exclusiveMaximum": 1})):
        yield f"number_{i}", {"type": "array", "items": {"type": "number", **bounds}, "minItems": 1}
    for step in (2, 5, 7, 10, 100, 0.5):
        kind = "integer" if isinstance(step, int) else "number"
        yield f"multiple_{step}", obj({"n": {"type": kind, "multipleOf": step}}, ["n"])


def arrays():
    yield "pair", {"type": "array", "prefixItems": [S, I], "items": False, "minItems": 2}
    yield "triple_open", {"type": "array", "prefixItems": [I, S, {"type": "boolean"}], "items": {"type": "number"}, "minItems": 3}
    yield "table", {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}}
    for low, high in ((0, 1), (1, 1), (2, 5), (0, 50), (10, 20), (100, 200)):
        yield f"count_{low}_{high}", {"type": "array", "items": I, "minItems": low, "maxItems": high}
    yield "unique_enum", {"type": "array", "items": {"enum": ["red", "green", "blue", "black"]}, "uniqueItems": True}
    yield "unique_booleans", {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}
    yield "contains", {"type": "array", "items": {"enum": ["x", "y", "z"]}, "contains": {"const": "z"}}
    yield "of_objects", {"type": "array", "items": obj({"id": I, "tags": {"type": "array", "items": S}}, ["id"]), "minItems": 1}


def combinations():
    base = {"type": "object", "properties": {"id": I, "name": S}, "required": ["id"]}
    yield "all_of", {"allOf": [base, {"properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}]}
    yield "all_of_bounds", {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 9}]}
    yield "all_of_ref", {"allOf": [{"$ref": "#/$defs/b"}, {"properties": {"extra": S}}], "$defs": {"b": base}}
    yield "all_of_strings", {"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 4}, {"pattern": "^[a-f]+$"}]}
    yield "one_of_types", {"oneOf": [S, I, {"type": "array", "items": I}]}
    yield "one_of_ranges", {"oneOf": [{"type": "integer", "maximum": 0}, {"type": "integer", "minimum": 10}]}
    yield "one_of_keys", {"oneOf": [obj({"a": I}, ["a"]), obj({"b": I}, ["b"]), obj({"c": S}, ["c"])]}
    yield "nested_choice", obj({"v": {"anyOf": [S, {"anyOf": [I, {"type": "null"}]}]}}, ["v"])
    country = {"properties": {"country": {"const": "US"}}, "required": ["country"]}
    yield "if_then", {**obj({"country": {"enum": ["US", "CA"]}, "zip": S}, ["country"]),
                      "if": country, "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}}, "required": ["zip"]}}
    yield "if_then_else", {**obj({"kind": {"enum": ["a", "b"]}, "n": {}}, ["kind", "n"]),
                           "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                           "then": {"properties": {"n": I}}, "else": {"properties": {"n": S}}}
    yield "dependent", obj({"card": S, "address": S, "name": S}, [], dependentRequired={"card": ["address"]})
    yield "dependent_two", obj({"a": I, "b": I, "c": I}, [], dependentRequired={"a": ["b"], "b": ["c"]})
    yield "pattern_properties", {"type": "object", "patternProperties": {"^[a-z]{3}$": I}, "additionalProperties": False}
    yield "pattern_two", {"type": "object", "patternProperties": {"^s_": S, "^i_": I}, "additionalProperties": False}
    yield "pattern_and_names", {"type": "object", "properties": {"id": I}, "required": ["id"],
                                "patternProperties": {"^x-[a-z]+$": S}, "additionalProperties": False}
    yield "property_names", {"type": "object", "propertyNames": {"pattern": "^[A-Z][a-z]*$"}, "additionalProperties": I}
    yield "property_names_length", {"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": S}
    yield "counts", {"type": "object", "additionalProperties": I, "minProperties": 1, "maxProperties": 4}
    yield "counts_low", {"type": "object", "additionalProperties": S, "minProperties": 2}
    yield "not_type", obj({"v": {"not": {"type": "string"}, "type": ["string", "integer", "null"]}}, ["v"])
    yield "not_enum", {"type": "string", "not": {"enum": ["root", "admin"]}, "minLength": 1, "maxLength": 12}
    yield "const_object", {"const": {"a": [1, 2.5, None], "b": {"c": "é\"\\"}}}
    yield "const_in_object", obj({"version": {"const": 3}, "mode": {"const": "fast"}, "n": I}, ["version", "mode"])
    yield "enum_mixed", {"enum": [1, "1", None, True, [1], {"a": 1}, 2.5]}
    yield "types", {"type": ["string", "integer", "boolean", "null", "array", "object"]}
    yield "types_in_object", obj({"a": {"type": ["integer", "null"]}, "b": {"type": ["string", "array"]}}, ["a", "b"])
    yield "anything", {}
    yield "any_object", {"type": "object"}
    yield "any_array", {"type": "array"}
    yield "escaped_keys", obj({"a b": I, "ü": S, "\"q\"": I, "c\\d": S, "": I}, ["a b", "ü"])


def unions(tools, rng):
    for n in (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32):
        chosen = rng.sample(tools, n)
        calls = [obj({"name": {"const": name}, "arguments": schema}, ["name", "arguments"]) for name, schema in chosen]
        yield f"one_call_of_{n}", {"anyOf": calls}
        if n <= 12:
            yield f"calls_of_{n}", {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "maxItems": 4}


# --- Files ---------------------------------------------------------------------------------------


def tests_of(schema, rng, most_bytes):
    formats = getattr(jsonschema.Draft202012Validator, "FORMAT_CHECKER", None)
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=formats or jsonschema.draft202012_format_checker)
    maker, seen, tests, valid = Maker(schema, rng), set(), [], []

    def add(value, is_valid):
        text = json.dumps(value)
        if text not in seen and len(text) < most_bytes:
            seen.add(text)
            tests.append({"valid": is_valid, "data": value})

    for tries in range(60):
        value = maker.make(schema)
        if validator.is_valid(value) and (tries > 40 or len(json.dumps(value)) < most_bytes):
            valid.append(value)
            add(value, True)
        most_bytes = max(most_bytes, 60000) if tries > 40 and not tests else most_bytes
        if len(tests) == (3 if most_bytes < 60000 else 1):
            break
    assert tests, f"no instance of {json.dumps(schema)[:300]}"
    for _ in range(200):
        value = spoil(rng.choice(valid), rng)
        if not validator.is_valid(value):
            add(value, False)
        if sum(not t["valid"] for t in tests) == 3:
            break
    return tests


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.json"):
        old.unlink()
    rng = random.Random(20250701)
    tools = list(read_notation("tools.txt", False))
    closed = [(name, schema) for name, schema in read_notation("tools.txt", True)]
    families = [("function", [pair for i, pair in enumerate(tools) if i % 2] + closed[::2]),
                ("config", list(read_notation("configs.txt", True))), ("calls", list(unions(tools, rng))),
                ("recursion", list(recursion())), ("depth", list(depth())), ("width", list(width(rng))),
                ("strings", list(strings())), ("numbers", list(numbers())), ("arrays", list(arrays())),
                ("combinations", list(combinations()))]
    count = total = 0
    for family, schemas in families:
        for name, schema in schemas:
            schema = {"$schema": DRAFT, **schema} if family in ("config", "function") else schema
            body = {"schema": schema, "tests": tests_of(schema, rng, 700)}
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n"
            name = name.replace(".", "_")
            (out / f"{family}_{name}.json").write_text(text)
            count, total = count + 1, total + len(text.encode())
    print(f"{count} schemas, {total} bytes")


main()
