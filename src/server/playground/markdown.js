// The part of Markdown that answers use, as DOM nodes: fenced code, headings, lists, quotes, code,
// strong and emphasis. Nothing of a text ever becomes markup of the page.

const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)\*\*|\*(?=[^\s*])(.+?)\*/g;

function element(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

function inline(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(end, match.index));
    if (match[2] !== undefined) parts.push(element("code", match[2]));
    else if (match[3] !== undefined) parts.push(element("strong", ...inline(match[3])));
    else parts.push(element("em", ...inline(match[4])));
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function codeBlock(language, lines) {
  const code = element("code", lines.join("\n"));
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.className = "copy quiet";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const head = element("div", element("span", language || "text"), copy);
  head.className = "code-head";
  const pre = element("pre", code);
  pre.tabIndex = 0;
  const block = element("div", head, pre);
  block.className = "code-block";
  return block;
}

function paragraph(lines) {
  const node = element("p");
  lines.forEach((line, i) => node.append(...(i > 0 ? [element("br")] : []), ...inline(line)));
  return node;
}

const LIST = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

class Reader {
  constructor(text) {
    this.lines = text.split("\n");
    this.at = 0;
  }

  get line() { return this.lines[this.at]; }
  get more() { return this.at < this.lines.length; }

  code() {
    const fence = this.line.match(/^\s*(```+|~~~+)\s*(\S*)/);
    const body = [];
    for (++this.at; this.more && !this.line.trim().startsWith(fence[1]); ++this.at) body.push(this.line);
    ++this.at;
    return codeBlock(fence[2], body);
  }

  list() {
    const first = this.line.match(LIST);
    const node = element(first[1] ? "ol" : "ul");
    if (first[1]) node.start = Number(first[1]);
    for (; this.more && LIST.test(this.line); ++this.at) {
      node.append(element("li", ...inline(this.line.match(LIST)[2])));
    }
    return node;
  }

  quote() {
    const body = [];
    for (; this.more && this.line.startsWith(">"); ++this.at) body.push(this.line.replace(/^>\s?/, ""));
    return element("blockquote", ...blocks(body.join("\n")));
  }

  heading() {
    const [, marks, text] = this.line.match(/^(#{1,6})\s+(.*)$/);
    ++this.at;
    return element(`h${Math.min(marks.length + 2, 6)}`, ...inline(text));
  }

  text() {
    const body = [];
    for (; this.more && this.line.trim() !== "" && (body.length === 0 || !this.starts()); ++this.at) body.push(this.line);
    return paragraph(body);
  }

  starts() {
    const line = this.line;
    if (/^\s*(```|~~~)/.test(line)) return "code";
    if (/^#{1,6}\s+\S/.test(line)) return "heading";
    if (line.startsWith(">")) return "quote";
    if (LIST.test(line)) return "list";
    return "";
  }

  next() {
    while (this.more && this.line.trim() === "") ++this.at;
    return this.more ? this[this.starts() || "text"]() : null;
  }
}

function blocks(text) {
  const reader = new Reader(text);
  const nodes = [];
  for (let node = reader.next(); node; node = reader.next()) nodes.push(node);
  return nodes;
}

// Behind the last empty line of `text` that stands outside of code: what comes before it is settled.
function settled(text, from) {
  let end = from;
  let fence = "";
  for (let at = from; at < text.length;) {
    const next = text.indexOf("\n", at);
    if (next < 0) break;
    const line = text.slice(at, next).trim();
    at = next + 1;
    const mark = line.match(/^(```+|~~~+)/)?.[1];
    if (fence ? line.startsWith(fence) : mark) fence = fence ? "" : mark;
    else if (line === "" && !fence) end = at;
  }
  return end;
}

// A text that grows inside of `node`: what is settled is drawn once, so that long answers stay cheap
// and selections in them alive.
export class GrowingText {
  #node;
  #text = "";
  #settled = 0;  // characters that are drawn for good
  #kept = 0;     // nodes of them

  constructor(node) { this.#node = node; }

  update(text) {
    if (text === this.#text) return;
    this.#text = text;
    while (this.#node.childNodes.length > this.#kept) this.#node.lastChild.remove();
    const end = settled(text, this.#settled);
    this.#node.append(...blocks(text.slice(this.#settled, end)));
    this.#settled = end;
    this.#kept = this.#node.childNodes.length;
    this.#node.append(...blocks(text.slice(end)));
  }
}
