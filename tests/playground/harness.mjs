// A server with a scripted model and a page in a browser, for the tests beside this file.
import {spawn} from "node:child_process";
import {once} from "node:events";
import {fileURLToPath} from "node:url";
import {createServer} from "node:net";
import {join} from "node:path";
import {chromium} from "playwright-core";

const script = fileURLToPath(new URL("script.json", import.meta.url));

export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const {port} = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function answers(url) {
  try { return (await fetch(`${url}ready`)).ok; } catch { return false; }
}

export class Server {
  constructor(port) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}/`;
  }

  async start() {
    this.process = spawn(process.env.THALWEG, ["serve", "--model", `fake:${script}`, "--port", String(this.port)],
      {stdio: ["ignore", "ignore", "pipe"]});
    let log = "";
    this.process.stderr.on("data", (data) => { log += data; });
    for (let i = 0; i < 200; ++i) {
      if (await answers(this.url)) return;
      if (this.process.exitCode !== null) break;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`the server did not start:\n${log}`);
  }

  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
  }
}

export async function launch() {
  return chromium.launch({executablePath: process.env.THALWEG_CHROMIUM, args: ["--no-sandbox"]});
}

// A page that notes what must not happen: requests to elsewhere, errors of scripts.
export class Page {
  constructor(page, origin) {
    this.page = page;
    this.wrong = [];
    page.on("request", (request) => { if (!request.url().startsWith(origin)) this.wrong.push(`request to ${request.url()}`); });
    page.on("pageerror", (error) => this.wrong.push(error.message));
    page.on("console", (message) => {
      if (/Content Security Policy|Uncaught/.test(message.text())) this.wrong.push(message.text());
    });
  }

  static async open(browser, url, options = {}) {
    const context = await browser.newContext({viewport: {width: 1280, height: 820}, ...options});
    const page = new Page(await context.newPage(), url);
    page.page.setDefaultTimeout(10000);
    await page.page.goto(url);
    return page;
  }

  async say(text) {
    await this.page.getByRole("textbox", {name: "Message", exact: true}).fill(text);
    await this.page.keyboard.press("Enter");
  }

  get answer() { return this.page.locator(".assistant").last(); }
  get facts() { return this.answer.locator(".facts span"); }
  async done() { await this.page.getByRole("button", {name: "Send", exact: true}).waitFor(); }

  async shot(name) {
    if (process.env.SCREENSHOTS) await this.page.screenshot({path: join(process.env.SCREENSHOTS, `${name}.png`)});
  }

  async close() { await this.page.context().close(); }
}
