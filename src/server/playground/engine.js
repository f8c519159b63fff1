// The live panel: what /load and /metrics say, once a second while the page is seen.
import {getJson, getText} from "./api.js";
import {plot} from "./plot.js";

const SLOTS = 120;
const PERIOD_MS = 1000;
const LONGEST_PERIOD_MS = 10000;

// Values by name, summed over labels.
export function parseMetrics(text) {
  const values = new Map();
  for (const line of text.split("\n")) {
    const match = line.match(/^([a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(\S+)/);
    if (match) values.set(match[1], (values.get(match[1]) ?? 0) + Number(match[2]));
  }
  return values;
}

function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(part === 0 || part === whole ? 0 : 1)} %` : "–";
}

export class EnginePanel {
  #rates = [];
  #last = null;  // {at, tokens}
  #period = PERIOD_MS;

  // `onReach(reachable)`: whether the server answers, when that changes.
  constructor(keyOf, onReach) {
    this.keyOf = keyOf;
    this.onReach = onReach;
    this.reachable = null;
  }

  start() {
    this.#tick();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.#last = null; });
  }

  async #tick() {
    if (!document.hidden) await this.#poll();
    setTimeout(() => this.#tick(), this.#period);
  }

  async #poll() {
    try {
      const [load, metrics] = await Promise.all([
        getJson("load", this.keyOf()), getText("metrics", this.keyOf())]);
      this.#show(load, parseMetrics(metrics));
      this.#reach(true);
    } catch (error) {
      this.#reach(!error.unreachable);
    }
  }

  #reach(reachable) {
    this.#period = reachable ? PERIOD_MS : Math.min(this.#period * 1.5, LONGEST_PERIOD_MS);
    if (!reachable) this.#last = null;
    if (reachable === this.reachable) return;
    this.reachable = reachable;
    this.onReach(reachable);
  }

  #show(load, metrics) {
    const value = (name) => metrics.get(name) ?? 0;
    this.#set("running", load.running ?? load.server_load ?? 0);
    this.#set("waiting", load.waiting ?? 0);
    this.#set("hits", percent(value("vllm:prefix_cache_hits_total"), value("vllm:prefix_cache_queries_total")));
    this.#set("accepted", percent(value("vllm:spec_decode_num_accepted_tokens_total"),
      value("vllm:spec_decode_num_draft_tokens_total")));
    this.#showCache(load);
    this.#showRate(value("vllm:generation_tokens_total"));
  }

  #showCache({used_blocks: used = 0, free_blocks: free = 0, cached_blocks: cached = 0}) {
    const all = used + free + cached;
    document.getElementById("kv").value = all > 0 ? used / all : 0;
    const kept = cached > 0 ? `, ${percent(cached, all)} cached` : "";
    this.#set("kv-text", `${percent(used, all)} used${kept}`);
  }

  #showRate(tokens) {
    const now = performance.now();
    if (this.#last) {
      const rate = Math.max(0, tokens - this.#last.tokens) * 1000 / (now - this.#last.at);
      this.#rates = [...this.#rates, rate].slice(-SLOTS);
      const peak = Math.max(...this.#rates);
      this.#set("rate", rate < 10 ? rate.toFixed(1) : Math.round(rate));
      this.#set("peak", peak > 0 ? `peak ${Math.round(peak)}` : "");
      plot(document.getElementById("plot"), this.#rates, SLOTS);
    }
    this.#last = {at: now, tokens};
  }

  #set(id, text) {
    const node = document.getElementById(id);
    if (node.textContent !== String(text)) node.textContent = text;
  }
}
