// Ties the page together.
import {getJson} from "./api.js";
import {Conversation} from "./conversation.js";
import {EnginePanel} from "./engine.js";
import {Settings} from "./settings.js";

const byId = (id) => document.getElementById(id);

const settings = new Settings(byId("settings"));
let model = "";

// --- the panel, which is beside the conversation where there is room, and over it where not

function showPanel(open) {
  document.body.classList.toggle("panel-open", open);
  byId("toggle-panel").setAttribute("aria-expanded", String(open));
  if (open) byId("close-panel").focus();
}
byId("toggle-panel").addEventListener("click", () => showPanel(!document.body.classList.contains("panel-open")));
byId("close-panel").addEventListener("click", () => {
  showPanel(false);
  byId("toggle-panel").focus();
});

// --- the conversation

const input = byId("input");
const conversation = new Conversation(byId("messages"), byId("scroller"), settings, {
  model: () => model,
  announce: (text) => { byId("announcer").textContent = text; },
  onBusy(busy) {
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
    if (!busy && matchMedia("(pointer: fine)").matches) input.focus();
  },
  onFieldError() {
    showPanel(true);
    document.querySelector("[aria-invalid=true]")?.focus();
  },
});

function fitInput() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
}

function showWelcome() { byId("welcome").hidden = !conversation.empty; }

function say(text) {
  if (conversation.busy || text.trim() === "") return;
  if (!conversation.say(text)) return;
  input.value = "";
  fitInput();
  showWelcome();
}

input.addEventListener("input", fitInput);
fitInput();
input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say(input.value);
});
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  say(input.value);
});
byId("stop").addEventListener("click", () => conversation.stop());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.body.classList.contains("panel-open")) byId("close-panel").click();
  else conversation.stop();
});
byId("new-chat").addEventListener("click", () => {
  conversation.clear();
  showWelcome();
  input.focus();
});
byId("starters").addEventListener("click", ({target}) => {
  if (target.dataset.prompt) say(target.dataset.prompt);
});

// --- the server

async function loadModel() {
  try {
    const {data} = await getJson("v1/models", settings.key);
    model = data[0].id;
    const context = data[0].max_model_len;
    byId("model").textContent = context ? `${model} · ${context.toLocaleString("en")} tokens` : model;
  } catch (error) {
    byId("model").textContent = error.status === 401 ? "an API key is needed" : "no connection";
  }
}
settings.form.elements.key.addEventListener("change", loadModel);

const engine = new EnginePanel(() => settings.key, (reachable) => {
  document.body.classList.toggle("lost", !reachable);
  byId("banner").hidden = reachable;
  byId("banner").textContent = reachable ? "" : "The server cannot be reached. Trying again…";
  if (reachable) loadModel();
});
engine.start();
loadModel();
