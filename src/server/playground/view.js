// How messages look: one list item for each, built of DOM nodes, redrawn as an answer grows.
import {GrowingText} from "./markdown.js";

export function element(name, className = "", ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

export function button(text, className, onClick) {
  const node = element("button", className, text);
  node.type = "button";
  node.addEventListener("click", onClick);
  return node;
}

export function userMessage(text) {
  return element("li", "message user", element("h3", "hidden", "You"), element("div", "bubble", text));
}

export function resultMessage(name, text) {
  const body = element("pre", "", text);
  body.tabIndex = 0;
  return element("li", "message result", element("h3", "from", `Result of ${name}`), body);
}

function pretty(json) {
  try { return JSON.stringify(JSON.parse(json), null, 2); } catch { return json; }
}

// Shows one answer. `actions`: {retry, sendResults(results)}.
export class AnswerView {
  #thoughtsTouched = false;

  constructor(actions) {
    this.actions = actions;
    this.summary = element("summary", "", "Thinking…");
    this.thoughts = element("div", "thoughts");
    this.details = element("details", "thinking", this.summary, this.thoughts);
    this.details.hidden = true;
    this.summary.addEventListener("click", () => { this.#thoughtsTouched = true; });
    this.text = element("div", "text");
    this.growingText = new GrowingText(this.text);
    this.growingThoughts = new GrowingText(this.thoughts);
    this.calls = element("div", "calls");
    this.foot = element("p", "facts");
    this.node = element("li", "message assistant waiting", element("h3", "hidden", "Answer"),
      this.details, this.text, this.calls, this.foot);
  }

  update(answer) {
    this.node.classList.toggle("waiting", answer.first === null && answer.ended === null);
    this.#showThoughts(answer);
    this.growingText.update(answer.content);
    this.calls.replaceChildren(...answer.calls.map((call) => this.#callCard(call)));
  }

  #showThoughts(answer) {
    if (!answer.reasoning) return;
    const thinking = answer.thoughtUntil === null && answer.ended === null;
    this.details.hidden = false;
    if (!this.#thoughtsTouched) this.details.open = thinking;
    this.summary.textContent = thinking ? "Thinking…" : `Thought for ${answer.thinkingSeconds.toFixed(1)} s`;
    this.summary.classList.toggle("live", thinking);
    this.growingThoughts.update(answer.reasoning);
  }

  #callCard(call) {
    const body = element("pre", "", pretty(call.arguments || "…"));
    body.tabIndex = 0;
    return element("div", "call", element("p", "call-name", element("code", "", call.name || "…")), body);
  }

  // The answer is over; an error is why it is not complete.
  end(answer, error) {
    this.update(answer);
    this.node.classList.remove("waiting");
    this.foot.replaceChildren(...answer.facts.map((fact) => element("span", "", fact)));
    this.#showFinish(answer, error);
    if (!error && answer.calls.length > 0) this.calls.append(this.#resultForm(answer.calls));
  }

  #showFinish(answer, error) {
    const notes = {length: "Cut off at the token limit.", stopped: "Stopped."};
    const note = notes[answer.finish];
    if (note) this.foot.before(element("p", "note", note));
    if (!error) return;
    const retry = button("Try again", "quiet", () => this.actions.retry());
    const card = element("div", "failure", element("p", "", error.message), retry);
    card.setAttribute("role", "alert");
    this.foot.before(card);
  }

  #resultForm(calls) {
    const form = element("form", "results");
    calls.forEach((call, i) => {
      const area = element("textarea", "code");
      area.rows = 2;
      area.required = true;
      area.name = `result${i}`;
      area.placeholder = '{"temperature": 21}';
      form.append(element("label", "", `Result of ${call.name}`, area));
    });
    const send = element("button", "primary", "Send results");
    form.append(send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const results = calls.map((call, i) => ({call, text: form.elements[`result${i}`].value}));
      form.remove();
      this.actions.sendResults(results);
    });
    return form;
  }
}
