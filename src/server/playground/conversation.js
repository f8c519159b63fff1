// The conversation: its messages, the answer under way, and what can be done with them.
import {Answer} from "./answer.js";
import {streamChat} from "./api.js";
import {FieldError} from "./settings.js";
import {AnswerView, resultMessage, userMessage} from "./view.js";

export class Conversation {
  #messages = [];
  #abort = null;
  #chat = 0;  // which one: an answer of an old chat is not kept

  // `hooks`: onBusy(busy), announce(text), onFieldError(), model().
  constructor(list, scroller, settings, hooks) {
    this.list = list;
    this.scroller = scroller;
    this.settings = settings;
    this.hooks = hooks;
  }

  get busy() { return this.#abort !== null; }
  get empty() { return this.list.children.length === 0; }

  clear() {
    this.stop();
    ++this.#chat;
    this.#messages = [];
    this.list.replaceChildren();
  }

  stop() { this.#abort?.abort(); }

  // False: a setting is wrong, and nothing was sent.
  say(text) {
    const body = this.#body();
    if (!body) return false;
    this.#messages.push({role: "user", content: text});
    this.list.append(userMessage(text));
    this.#answer(body);
    return true;
  }

  #sendResults(results) {
    const body = this.#body();
    if (!body) return;
    for (const {call, text} of results) {
      this.#messages.push({role: "tool", tool_call_id: call.id, content: text});
      this.list.append(resultMessage(call.name, text));
    }
    this.#answer(body);
  }

  #body() {
    try {
      return this.settings.body();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.hooks.onFieldError();
      this.hooks.announce(error.message);
      return null;
    }
  }

  #retry(view) {
    const body = this.#body();
    if (this.busy || !body) return;
    view.node.remove();
    this.#answer(body);
  }

  async #answer(body) {
    const chat = this.#chat;
    const answer = new Answer();
    const view = new AnswerView({
      retry: () => this.#retry(view),
      sendResults: (results) => this.#sendResults(results),
    });
    this.list.append(view.node);
    this.#toEnd(true);
    this.#begin();
    const error = await this.#stream(body, answer, view);
    answer.end();
    const keep = this.#atEnd();
    view.end(answer, error);
    if (keep) this.#toEnd(true);
    if (!error && chat === this.#chat) this.#messages.push(answer.message);
    this.#finish(answer, error);
  }

  #begin() {
    this.#abort = new AbortController();
    this.hooks.onBusy(true);
    this.hooks.announce("Answering…");
  }

  // The error that ended it, or null.
  async #stream(body, answer, view) {
    const system = this.settings.system;
    const messages = system ? [{role: "system", content: system}, ...this.#messages] : this.#messages;
    const request = {model: this.hooks.model(), ...body, messages};
    try {
      for await (const chunk of streamChat(request, this.settings.key, this.#abort.signal)) {
        if (answer.take(chunk)) this.#draw(answer, view);
      }
      return null;
    } catch (error) {
      if (error.name !== "AbortError") return error;
      answer.finish = "stopped";
      return null;
    }
  }

  #draw(answer, view) {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (answer.ended !== null) return;
      const keep = this.#atEnd();
      view.update(answer);
      if (keep) this.#toEnd(false);
    });
  }

  #finish(answer, error) {
    this.#abort = null;
    this.hooks.onBusy(false);
    if (error) {
      if (this.settings.showServerError(error)) this.hooks.onFieldError();
      return;
    }
    const calls = answer.calls.length;
    this.hooks.announce(calls > 0 ? `The answer calls ${calls} tool${calls > 1 ? "s" : ""}.` : "Answer complete.");
  }

  #atEnd() {
    const {scrollTop, scrollHeight, clientHeight} = this.scroller;
    return scrollHeight - scrollTop - clientHeight < 60;
  }

  #toEnd(smooth) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.scroller.scrollTo({top: this.scroller.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant"});
  }
}
