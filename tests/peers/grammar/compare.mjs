// compare.mjs CORPUS REPORT: verdicts of XGrammar about every instance of the corpus beside ours, which the
// report of `thalweg grammar bench --json` holds. Prints a table of agreement and every disagreement; exit code 1
// when we accept an invalid instance.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

// The package says that it is a module, and is a script of the older kind.
const load = (file) => {
  const module = { exports: {} };
  new Function("module", "exports", "require", "__dirname", "__filename", fs.readFileSync(file, "utf8"))(
    module, module.exports, createRequire(import.meta.url), path.dirname(file), file);
  return module.exports;
};
// An abort leaves its instance of no use: what comes next gets another one.
const fresh = () => load("node_modules/@mlc-ai/web-xgrammar/lib/index.js");
let peer = fresh();
const print = console.log;
console.log = console.warn = console.error = () => {};  // it has much to say

const [corpus, reportFile] = process.argv.slice(2);
const report = JSON.parse(fs.readFileSync(reportFile, "utf8"));

// Text as json.dumps writes it. Numbers keep the spelling of JavaScript, which suffices here.
const text = (v) =>
  Array.isArray(v) ? `[${v.map(text).join(", ")}]`
  : v !== null && typeof v === "object" ? `{${Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}: ${text(x)}`).join(", ")}}`
  : JSON.stringify(v);

// file -> "error", or the numbers of tests on which we are wrong.
const ours = new Map();
for (const { file, why } of report.failures) {
  const test = /^test (\d+): (valid|invalid) instance/.exec(why);
  if (!test) ours.set(file, "error");
  else if (ours.get(file) !== "error") ours.set(file, [...(ours.get(file) ?? []), Number(test[1])]);
}
const ourVerdict = (file, i, valid) =>
  ours.get(file) === "error" ? "refused to compile" : (ours.get(file) ?? []).includes(i) !== valid ? "accepts" : "rejects";

// Objects are as open as their schema says, whitespace is free.
const theirGrammar = async (schema) => {
  try {
    return await peer.Grammar.fromJSONSchema(JSON.stringify(schema), true, 2, undefined, false);
  } catch (error) {
    peer = fresh();
    return null;
  }
};
const theirVerdict = async (grammar, instance) => {
  if (grammar === null) return "refused to compile";
  try {
    return (await peer.Testings.isGrammarAcceptString(grammar, instance)) ? "accepts" : "rejects";
  } catch (error) {
    peer = fresh();
    return "fails";
  }
};

const counts = new Map();
const disagreements = [];
for (const file of fs.readdirSync(corpus).filter((f) => f.endsWith(".json")).sort().slice(0, report.schemas)) {
  const { schema, tests } = JSON.parse(fs.readFileSync(path.join(corpus, file), "utf8"));
  const grammar = await theirGrammar(schema);
  for (const [i, { valid, data }] of tests.entries()) {
    const instance = text(data);
    const pair = [valid ? "valid" : "invalid", ourVerdict(file, i, valid), await theirVerdict(grammar, instance)];
    counts.set(pair.join("|"), (counts.get(pair.join("|")) ?? 0) + 1);
    if (pair[1] !== pair[2]) disagreements.push([file, i, ...pair, instance.slice(0, 160)]);
  }
}
print("| instance | thalweg | XGrammar | count |\n|---|---|---|---:|");
for (const [pair, count] of [...counts].sort()) print(`| ${pair.replaceAll("|", " | ")} | ${count} |`);
print(`\n${disagreements.length} disagreements`);
for (const d of disagreements) print(`${d[0]} test ${d[1]} (${d[2]}): thalweg ${d[3]}, XGrammar ${d[4]}: ${d[5]}`);
process.exit(report.invalid_accepted > 0 ? 1 : 0);
