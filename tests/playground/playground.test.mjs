// The chat page in a browser against the real server: what a user does works, with keyboard and at phone width too,
// nothing is fetched from elsewhere, and what a model says is never markup.
import assert from "node:assert/strict";
import {after, afterEach, before, beforeEach, test} from "node:test";
import {freePort, launch, Page, Server} from "./harness.mjs";

let browser, server, chat;

before(async () => {
  browser = await launch();
  server = new Server(await freePort());
  await server.start();
});
after(async () => {
  await browser?.close();
  await server?.kill();
});
beforeEach(async () => { chat = await Page.open(browser, server.url); });
afterEach(async () => {
  const wrong = chat.wrong;
  await chat.close();
  assert.deepEqual(wrong, []);
});

test("send: the answer is shown with its form and its figures", async () => {
  await chat.shot("welcome");
  await chat.say("How does a river find its deepest line?");
  await chat.done();
  await chat.answer.getByRole("heading", {name: "How a river finds its deepest line"}).waitFor();
  assert.equal(await chat.answer.locator(".text ol > li").count(), 3);
  assert.equal(await chat.answer.locator("strong").first().textContent(), "fastest");
  const facts = (await chat.facts.allTextContents()).join(" | ");
  assert.match(facts, /\d+ tokens \| \d+ thinking \| prompt \d+.* \| first after .* \| [\d.]+ tok\/s/);
  assert.match(await chat.page.locator("#model").textContent(), /^scripted · /);
  await chat.shot("answer");
});

test("stream: the first half is there before the second", async () => {
  await chat.say("Slowly");
  await chat.answer.getByText("First half,").waitFor();
  assert.ok(!(await chat.answer.textContent()).includes("second half"));
  await chat.answer.getByText("First half, second half.").waitFor();
  await chat.done();
});

test("stop: with the button and with Escape; what was said stays, and the next message is answered", async () => {
  for (const stop of [() => chat.page.getByRole("button", {name: "Stop", exact: true}).click(), () => chat.page.keyboard.press("Escape")]) {
    await chat.say("Forever");
    await chat.answer.getByText(/on and on/).first().waitFor();
    await stop();
    await chat.done();
    await chat.answer.getByText("Stopped.").waitFor();
  }
  await chat.say("Cut");
  await chat.answer.getByText("This is as far as it").waitFor();
  await chat.answer.getByText("Cut off at the token limit.").waitFor();
  assert.equal(await chat.page.locator(".assistant").count(), 3);
});

test("stop: the server lets go of the request", async () => {
  await chat.say("Forever");
  await chat.answer.getByText(/on and on/).first().waitFor();
  await chat.page.keyboard.press("Escape");
  await chat.page.waitForFunction(async () => (await (await fetch("load")).json()).server_load === 0);
});

test("thinking: open while it goes on, folded away after it, and never part of the answer", async () => {
  await chat.say("Slowly");
  const thinking = chat.answer.locator("details.thinking");
  await thinking.getByText("first thought").waitFor();
  assert.ok(await thinking.evaluate((node) => node.open));
  await chat.shot("thinking");
  await chat.done();
  assert.ok(!(await thinking.evaluate((node) => node.open)));
  assert.match(await thinking.locator("summary").textContent(), /^Thought for \d/);
  assert.equal(await chat.answer.locator(".text").textContent(), "First half, second half.");
  await thinking.locator("summary").press("Enter");
  assert.ok(await thinking.evaluate((node) => node.open));
});

test("thinking: switched off, the request says so", async () => {
  await chat.page.getByRole("checkbox", {name: "Think before answering"}).uncheck();
  const request = chat.page.waitForRequest(/chat\/completions/);
  await chat.say("Cut");
  const body = (await request).postDataJSON();
  assert.deepEqual(body.thinking, {type: "disabled"});
  assert.equal(body.reasoning_effort, undefined);
  await chat.done();
});

test("sampling: what is set is sent, and survives a reload", async () => {
  const {page} = chat;
  await page.getByRole("slider", {name: "Temperature"}).fill("0.3");
  await page.getByRole("spinbutton", {name: "Max tokens"}).fill("50");
  await page.getByRole("textbox", {name: "Stop strings"}).fill("END\nSTOP");
  await page.getByRole("textbox", {name: "System message"}).fill("Be brief.");
  await page.reload();
  const request = page.waitForRequest(/chat\/completions/);
  await chat.say("Cut");
  const body = (await request).postDataJSON();
  assert.equal(body.temperature, 0.3);
  assert.equal(body.max_tokens, 50);
  assert.deepEqual(body.stop, ["END", "STOP"]);
  assert.deepEqual(body.messages[0], {role: "system", content: "Be brief."});
  await chat.done();
});

test("tool call: shown with its arguments, answered by hand, and the conversation goes on", async () => {
  await chat.page.getByRole("button", {name: "Insert an example"}).first().click();
  await chat.say("Weather in Paris?");
  await chat.done();
  const call = chat.answer.locator(".call");
  assert.equal(await call.locator("code").first().textContent(), "get_weather");
  assert.deepEqual(JSON.parse(await call.locator("pre").textContent()), {location: "Paris"});
  assert.ok(!(await chat.answer.textContent()).includes("DSML"));
  await chat.shot("tool-call");
  await chat.page.getByRole("textbox", {name: "Result of get_weather"}).fill("21");
  await chat.page.getByRole("button", {name: "Send results"}).click();
  await chat.answer.getByText("It is 21 °C in Paris.").waitFor();
  await chat.done();
});

test("schema error: of the text it is found here, of the schema by the server, and both are shown at the field", async () => {
  const {page} = chat;
  await page.getByRole("combobox", {name: "Form"}).selectOption("json_schema");
  const schema = page.getByRole("textbox", {name: "Schema", exact: true});
  await schema.fill('{"type": ');
  await chat.say("JSON please");
  assert.match(await page.locator("#schema-error").textContent(), /cannot be read as JSON/);
  assert.equal(await schema.getAttribute("aria-invalid"), "true");
  assert.equal(await page.locator(".assistant").count(), 0);
  await schema.fill('{"type": "nothing-known"}');
  await chat.say("JSON please");
  await page.locator("#schema-error").waitFor();
  await chat.done();
  assert.match(await page.locator("#schema-error").textContent(), /type/);
  await chat.answer.getByRole("alert").waitFor();
  await chat.shot("schema-error");
  await page.getByRole("button", {name: "Insert an example"}).last().click();
  await chat.answer.getByRole("button", {name: "Try again"}).click();
  await chat.answer.getByText('"score": 7').waitFor();
  await chat.done();
  assert.equal(await page.locator(".assistant").count(), 1);
});

test("an error behind the first words is shown below them", async () => {
  await chat.say("Fail");
  const alert = chat.answer.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.textContent(), /fell off/);
  await chat.answer.getByText("It began").waitFor();
});

test("reconnect: a lost server is noticed in an answer and by the panel, and found again", async () => {
  await chat.say("Forever");
  await chat.answer.getByText(/on and on/).first().waitFor();
  await server.kill();
  await chat.answer.getByRole("alert").waitFor();
  assert.match(await chat.answer.getByRole("alert").textContent(), /connection was lost/);
  await chat.page.getByText("The server cannot be reached. Trying again…").waitFor();
  await chat.shot("lost");
  await chat.page.getByRole("button", {name: "New chat"}).click();
  await chat.say("Cut");
  await chat.answer.getByRole("alert").waitFor();
  await server.start();
  await chat.page.locator("#banner").waitFor({state: "hidden", timeout: 20000});
  await chat.answer.getByRole("button", {name: "Try again"}).click();
  await chat.answer.getByText("This is as far as it").waitFor();
  await chat.done();
});

test("a new chat while an answer runs leaves nothing of the old one", async () => {
  await chat.say("Forever");
  await chat.answer.getByText(/on and on/).first().waitFor();
  await chat.page.getByRole("button", {name: "New chat"}).click();
  await chat.done();
  const request = chat.page.waitForRequest(/chat\/completions/);
  await chat.say("Cut");
  assert.deepEqual((await request).postDataJSON().messages, [{role: "user", content: "Cut"}]);
  await chat.done();
});

test("what a model says is text, whatever it says", async () => {
  await chat.say("Inject");
  await chat.done();
  await chat.answer.getByText("<img src=x").waitFor();
  assert.equal(await chat.answer.locator("img, script, .text b").count(), 0);
  assert.notEqual(await chat.page.title(), "owned");
});

test("the engine's panel shows what the server counts", async () => {
  await chat.say("Forever");
  await chat.page.waitForFunction(() => document.getElementById("running").textContent === "1");
  await chat.page.waitForFunction(() => Number(document.getElementById("rate").textContent) > 0);
  await chat.page.waitForFunction(() => document.querySelector("#plot .line")?.getAttribute("d").length > 20);
  await chat.page.keyboard.press("Escape");
  await chat.page.waitForFunction(() => document.getElementById("running").textContent === "0");
});

test("narrow screen: nothing is wider than it, and the panel opens over the conversation", async () => {
  const phone = await Page.open(browser, server.url,
    {viewport: {width: 360, height: 740}, deviceScaleFactor: 2, isMobile: true, hasTouch: true});
  const {page} = phone;
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  await phone.say("How does a river find its deepest line?");
  await phone.done();
  assert.ok(await fits());
  await phone.shot("phone");
  const settings = page.getByRole("button", {name: "Settings"});
  await settings.tap();
  await page.getByRole("slider", {name: "Temperature"}).waitFor();
  assert.equal(await settings.getAttribute("aria-expanded"), "true");
  assert.ok(await fits());
  await page.waitForTimeout(300);
  await phone.shot("phone-settings");
  await page.keyboard.press("Escape");
  await page.getByRole("slider", {name: "Temperature"}).waitFor({state: "hidden"});
  assert.ok(await settings.evaluate((node) => node === document.activeElement));
  assert.deepEqual(phone.wrong, []);
  await phone.close();
});

test("keyboard: everything can be reached, and everything that can has a name", async () => {
  const {page} = chat;
  const cdp = await page.context().newCDPSession(page);
  const {nodes} = await cdp.send("Accessibility.getFullAXTree");
  const focusable = nodes.filter((node) => node.properties?.some(({name, value}) => name === "focusable" && value.value));
  const nameless = focusable.filter((node) => !node.name?.value && node.role.value !== "RootWebArea");
  assert.ok(focusable.length > 20);
  assert.deepEqual(nameless.map((node) => node.role.value), []);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "input");
});

// Contrast of two colours (WCAG 2.2, 1.4.3).
function contrast(a, b) {
  const luminance = (color) => {
    const [r, g, b2] = color.match(/[\d.]+/g).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b2;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

for (const colorScheme of ["light", "dark"]) {
  test(`${colorScheme}: text can be read`, async () => {
    const page = await Page.open(browser, server.url, {colorScheme});
    const colors = await page.page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("i"));
      const resolve = (name) => {
        probe.style.color = `var(--${name})`;
        return getComputedStyle(probe).color;
      };
      const names = ["paper", "raised", "sunk", "ink", "soft", "accent", "accent-ink", "bad", "bad-wash", "accent-wash"];
      return Object.fromEntries(names.map((name) => [name, resolve(name)]));
    });
    const pairs = [["ink", "paper"], ["ink", "raised"], ["ink", "accent-wash"], ["soft", "paper"], ["soft", "raised"],
      ["soft", "sunk"], ["accent-ink", "accent"], ["bad", "bad-wash"], ["bad", "paper"]];
    for (const [front, back] of pairs) {
      const ratio = contrast(colors[front], colors[back]);
      assert.ok(ratio >= 4.5, `${front} on ${back}: ${ratio.toFixed(2)}`);
    }
    await page.say("How does a river find its deepest line?");
    await page.done();
    await page.shot(colorScheme);
    assert.deepEqual(page.wrong, []);
    await page.close();
  });
}
