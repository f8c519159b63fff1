// The settings form: kept over reloads, read into the body of a request, errors shown at their field.

const STORED = "thalweg.settings";
const SESSION_ONLY = ["key"];

const SAMPLE_TOOLS = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather at a place, now.",
    parameters: {
      type: "object",
      properties: {
        location: {type: "string", description: "City"},
        unit: {type: "string", enum: ["celsius", "fahrenheit"]},
      },
      required: ["location"],
    },
  },
}];

const SAMPLE_SCHEMA = {
  type: "object",
  properties: {
    title: {type: "string"},
    score: {type: "integer", minimum: 0, maximum: 10},
    tags: {type: "array", items: {type: "string"}},
  },
  required: ["title", "score", "tags"],
  additionalProperties: false,
};

// Wrong input: the field is marked, and the message is for people.
export class FieldError extends Error {}

export class Settings {
  constructor(form) {
    this.form = form;
    this.#restore();
    form.addEventListener("input", () => this.#changed());
    form.addEventListener("submit", (event) => event.preventDefault());
    this.#sample("sample-tools", "tools", SAMPLE_TOOLS);
    this.#sample("sample-schema", "schema", SAMPLE_SCHEMA);
    this.#changed();
  }

  get key() { return this.#text("key"); }
  get system() { return this.form.elements.system.value; }

  // The fields of a request that are not its messages. Throws a FieldError.
  body() {
    const body = {};
    this.#thinking(body);
    for (const name of ["temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty"]) {
      const text = this.#text(name);
      if (text !== "") body[name] = Number(text);
    }
    const stop = this.form.elements.stop.value.split("\n").filter((line) => line !== "");
    if (stop.length > 0) body.stop = stop;
    this.#tools(body);
    this.#format(body);
    return body;
  }

  // Shows what the server found wrong where it was entered; whether there is such a field.
  showServerError({message, param}) {
    const schema = param?.startsWith("response_format") || (!param && /^schema\b/.test(message));
    const name = schema ? "schema" : param?.startsWith("tools") ? "tools" : "";
    if (!name || !this.#text(name)) return false;
    this.#setError(name, message);
    return true;
  }

  #thinking(body) {
    const thinking = this.form.elements.thinking.checked;
    body.thinking = {type: thinking ? "enabled" : "disabled"};
    if (thinking) body.reasoning_effort = Number(this.form.elements.effort.value);
  }

  #tools(body) {
    const tools = this.#json("tools", "Tools");
    if (tools === undefined) return;
    if (!Array.isArray(tools)) this.#fail("tools", "Tools must be a list: [ … ].");
    if (tools.length === 0) return;
    body.tools = tools;
    body.tool_choice = this.form.elements.tool_choice.value;
  }

  #format(body) {
    const type = this.form.elements.format.value;
    if (type === "text") return;
    body.response_format = {type};
    if (type !== "json_schema") return;
    const schema = this.#json("schema", "The schema");
    if (schema === undefined) this.#fail("schema", "A JSON schema is needed.");
    body.response_format.json_schema = {name: "answer", schema, strict: true};
  }

  #json(name, what) {
    const text = this.#text(name);
    if (text === "") return undefined;
    try {
      return JSON.parse(text);
    } catch (error) {
      this.#fail(name, `${what} cannot be read as JSON: ${error.message}`);
    }
  }

  #fail(name, message) {
    this.#setError(name, message);
    throw new FieldError(message);
  }

  #setError(name, message) {
    const field = this.form.elements[name];
    const error = document.getElementById(`${name}-error`);
    error.textContent = message;
    error.hidden = !message;
    field.setAttribute("aria-invalid", String(Boolean(message)));
  }

  #text(name) { return this.form.elements[name].value.trim(); }

  #sample(button, name, value) {
    document.getElementById(button).addEventListener("click", () => {
      this.form.elements[name].value = JSON.stringify(value, null, 2);
      this.#changed();
    });
  }

  #changed() {
    const fields = this.form.elements;
    for (const output of this.form.querySelectorAll("output")) {
      output.value = fields[output.dataset.of].value;
    }
    fields.effort.disabled = !fields.thinking.checked;
    document.getElementById("schema-field").hidden = fields.format.value !== "json_schema";
    for (const name of ["tools", "schema"]) this.#setError(name, "");
    this.#store();
  }

  #store() {
    const kept = {};
    for (const field of this.form.elements) {
      if (!field.name) continue;
      const value = field.type === "checkbox" ? field.checked : field.value;
      if (SESSION_ONLY.includes(field.name)) sessionStorage.setItem(`${STORED}.${field.name}`, value);
      else kept[field.name] = value;
    }
    localStorage.setItem(STORED, JSON.stringify(kept));
  }

  #restore() {
    let kept = {};
    try { kept = JSON.parse(localStorage.getItem(STORED)) ?? {}; } catch { /* begins anew */ }
    for (const name of SESSION_ONLY) kept[name] = sessionStorage.getItem(`${STORED}.${name}`) ?? "";
    for (const [name, value] of Object.entries(kept)) {
      const field = this.form.elements[name];
      if (!field) continue;
      if (field.type === "checkbox") field.checked = value;
      else field.value = value;
    }
  }
}
