// One answer that grows: chunks in; text, thoughts, calls, usage and times out.

export class Answer {
  content = "";
  reasoning = "";
  calls = [];  // {id, name, arguments}
  finish = null;
  usage = null;
  started = performance.now();
  first = null;     // when the first token came
  thoughtUntil = null;
  ended = null;

  // Whether anything that is shown has changed.
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return false;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    return this.#takeDelta(choice.delta ?? {});
  }

  #takeDelta(delta) {
    const said = delta.content || delta.reasoning_content || delta.tool_calls;
    if (!said) return false;
    this.first ??= performance.now();
    if (delta.reasoning_content) this.reasoning += delta.reasoning_content;
    if (delta.content || delta.tool_calls) this.thoughtUntil ??= performance.now();
    if (delta.content) this.content += delta.content;
    for (const call of delta.tool_calls ?? []) this.#takeCall(call);
    return true;
  }

  #takeCall(part) {
    const call = this.calls[part.index] ??= {id: "", name: "", arguments: ""};
    if (part.id) call.id = part.id;
    if (part.function?.name) call.name += part.function.name;
    if (part.function?.arguments) call.arguments += part.function.arguments;
  }

  end() {
    this.ended = performance.now();
    if (this.reasoning) this.thoughtUntil ??= this.ended;
  }

  get thinkingSeconds() {
    return ((this.thoughtUntil ?? performance.now()) - (this.first ?? this.started)) / 1000;
  }

  // For the next request.
  get message() {
    const message = {role: "assistant", content: this.content};
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (this.calls.length > 0) {
      message.tool_calls = this.calls.map(({id, name, arguments: text}) =>
        ({id, type: "function", function: {name, arguments: text}}));
    }
    return message;
  }

  // Short facts for the line below an answer.
  get facts() {
    const facts = [];
    const out = this.usage?.completion_tokens;
    if (out !== undefined) facts.push(`${out} tokens`);
    const thought = this.usage?.completion_tokens_details?.reasoning_tokens;
    if (thought) facts.push(`${thought} thinking`);
    const cached = this.usage?.prompt_tokens_details?.cached_tokens;
    if (this.usage) facts.push(`prompt ${this.usage.prompt_tokens}${cached ? ` (${cached} cached)` : ""}`);
    if (this.first) facts.push(`first after ${seconds(this.first - this.started)}`);
    const span = this.ended - this.first;
    if (out > 1 && this.first && span > 0) facts.push(`${((out - 1) * 1000 / span).toFixed(1)} tok/s`);
    return facts;
  }
}

export function seconds(milliseconds) {
  return milliseconds < 950 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
