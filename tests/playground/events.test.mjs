// The page's reader of server-sent events: the same events from any cut of the bytes, with every ending of lines, and
// those that the standard's own examples say (WHATWG HTML 9.2.6).
import assert from "node:assert/strict";
import {test} from "node:test";
import {events} from "../../src/server/playground/sse.js";

async function read(chunks) {
  const found = [];
  const stream = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  for await (const data of events(stream)) found.push(data);
  return found;
}

// Mulberry32.
function randoms(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

function cut(bytes, places) {
  const ends = [...places].sort((a, b) => a - b).concat(bytes.length);
  return ends.map((end, i) => bytes.subarray(i === 0 ? 0 : ends[i - 1], end));
}

const bytesOf = (text) => new TextEncoder().encode(text);

test("the examples of the standard", async () => {
  assert.deepEqual(await read([bytesOf("data: YHOO\ndata: +2\ndata: 10\n\n")]), ["YHOO\n+2\n10"]);
  assert.deepEqual(await read([bytesOf(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third\n\n")]),
    ["first event", "second event", " third"]);
});

test("any cut in two is the same", async () => {
  for (const end of ["\n", "\r\n"]) {
    const bytes = bytesOf(["event: a", 'data: {"text":"né 你好 😀"}', "", ": wait", "", "data: one", "data: two", "", "data: [DONE]", "", ""].join(end));
    const whole = await read([bytes]);
    assert.deepEqual(whole, ['{"text":"né 你好 😀"}', "one\ntwo", "[DONE]"]);
    for (let i = 0; i <= bytes.length; ++i) assert.deepEqual(await read(cut(bytes, [i])), whole, `${i}`);
  }
});

test("random streams, cut at random", async () => {
  const random = randoms(1);
  const pieces = ["data: ", "data:", "data", "id: 3", ": ", "\n", "\n\n", "\r\n", "\r\n\r\n", "x", "😀", "你", "{}", " ", ":", "[DONE]", "\u2028"];
  for (let round = 0; round < 2000; ++round) {
    let text = "";
    for (let n = random(30); n > 0; --n) text += pieces[random(pieces.length)];
    const bytes = bytesOf(text);
    const places = Array.from({length: random(6)}, () => random(bytes.length + 1));
    assert.deepEqual(await read(cut(bytes, places)), await read([bytes]), JSON.stringify([text, places]));
  }
});
