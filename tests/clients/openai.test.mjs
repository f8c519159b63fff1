// OpenAI's own client: chat, streams, tools, structure, Responses, errors, aborts and retries.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import OpenAI from 'openai';
import { idle, isPerson, isWeather, model, person, url, weather } from './common.mjs';

const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const off = { thinking: { type: 'disabled' } };
const hello = [{ role: 'user', content: 'Say hello.' }];
const tool = {
  type: 'function',
  function: { name: weather.name, description: weather.description, parameters: weather.schema, strict: true },
};

test('chat', async () => {
  const answer = await client.chat.completions.create({ model, messages: hello, max_tokens: 16, ...off });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test('the same seed gives the same answer, streamed or whole', async () => {
  const ask = { model, messages: hello, max_tokens: 24, seed: 7, ...off };
  const whole = await client.chat.completions.create(ask);
  let text = '';
  let usage;
  const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('reasoning apart from content', async () => {
  const ask = { model, messages: hello, max_tokens: 60, thinking_budget: 10, seed: 1 };
  const whole = await client.chat.completions.create(ask);
  assert.equal(typeof whole.choices[0].message.reasoning_content, 'string');
  assert.ok(whole.usage.completion_tokens_details.reasoning_tokens > 0);
  assert.ok(whole.usage.completion_tokens_details.reasoning_tokens <= 10);
});

test('several answers with log-probabilities', async () => {
  const answer = await client.chat.completions.create({
    model, messages: hello, n: 3, max_tokens: 8, logprobs: true, top_logprobs: 2, ...off,
  });
  assert.equal(answer.choices.length, 3);
  for (const choice of answer.choices) {
    assert.ok(choice.logprobs.content.length > 0);
    for (const one of choice.logprobs.content) {
      assert.equal(one.top_logprobs.length, 2);
      assert.ok(one.logprob <= 0);
    }
  }
});

for (const thinking of [off, { thinking_budget: 8 }]) {
  const name = thinking.thinking ? 'without thinking' : 'with thinking';
  test(`tools are called when they must be, ${name}`, async () => {
    for (const choice of ['required', { type: 'function', function: { name: weather.name } }]) {
      const answer = await client.chat.completions.create({
        model, messages: hello, tools: [tool], tool_choice: choice, parallel_tool_calls: false, max_tokens: 300, ...thinking,
      });
      assert.equal(answer.choices[0].finish_reason, 'tool_calls');
      const [call] = answer.choices[0].message.tool_calls;
      assert.equal(call.function.name, weather.name);
      assert.ok(isWeather(JSON.parse(call.function.arguments)), call.function.arguments);
    }
  });

  test(`answers follow their schema, ${name}`, async () => {
    const answer = await client.chat.completions.create({
      model, messages: hello, max_tokens: 400, ...thinking,
      response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: person } },
    });
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.ok(isPerson(JSON.parse(answer.choices[0].message.content)), answer.choices[0].message.content);
  });
}

test('tools that may be called, and tools that may not', async () => {
  const auto = await client.chat.completions.create({
    model, messages: hello, tools: [tool], tool_choice: 'auto', max_tokens: 40, ...off,
  });
  assert.ok(['stop', 'length', 'tool_calls'].includes(auto.choices[0].finish_reason));
  const none = await client.chat.completions.create({
    model, messages: hello, tools: [tool], tool_choice: 'none', max_tokens: 40, ...off,
  });
  assert.equal(none.choices[0].message.tool_calls, undefined);
});

test('streamed calls are put together by the client', async () => {
  const runner = client.chat.completions.stream({
    model, messages: hello, tools: [tool], tool_choice: 'required', parallel_tool_calls: false, max_tokens: 300, ...off,
  });
  const answer = await runner.finalChatCompletion();
  assert.ok(isWeather(JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments)));
});

test('results of tools are taken back', async () => {
  const answer = await client.chat.completions.create({
    model, max_tokens: 8, tools: [tool], ...off,
    messages: [
      ...hello,
      { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: weather.name, arguments: '{"city":"Rome","days":1}' } }] },
      { role: 'tool', tool_call_id: 'c1', content: '20C' },
    ],
  });
  assert.ok(answer.usage.prompt_tokens > 0);
});

test('regex', async () => {
  const answer = await client.chat.completions.create({
    model, messages: hello, regex: '[0-9]{4}-[0-9]{2}', max_tokens: 40, ...off,
  });
  assert.match(answer.choices[0].message.content, /^[0-9]{4}-[0-9]{2}$/);
});

test('Responses: whole, streamed, tools, structure', async () => {
  const whole = await client.responses.create({ model, input: 'Say hello.', max_output_tokens: 40, thinking_budget: 8 });
  assert.equal(whole.object, 'response');
  assert.ok(whole.usage.output_tokens > 0);
  const types = new Set();
  const stream = await client.responses.create({ model, input: 'Say hello.', max_output_tokens: 30, stream: true });
  for await (const event of stream) types.add(event.type);
  assert.ok(types.has('response.created'));
  assert.ok(types.has('response.completed') || types.has('response.incomplete'));
  const call = await client.responses.create({
    model, input: 'Say hello.', max_output_tokens: 300, tool_choice: 'required', parallel_tool_calls: false,
    reasoning: { effort: 'none' },
    tools: [{ type: 'function', name: weather.name, parameters: weather.schema, strict: true }],
  });
  const item = call.output.find((one) => one.type === 'function_call');
  assert.ok(isWeather(JSON.parse(item.arguments)));
  const parsed = await client.responses.create({
    model, input: 'Say hello.', max_output_tokens: 300, reasoning: { effort: 'none' },
    text: { format: { type: 'json_schema', name: 'person', strict: true, schema: person } },
  });
  assert.ok(isPerson(JSON.parse(parsed.output_text)));
});

test('completions with the log-probabilities of the prompt', async () => {
  const answer = await client.completions.create({ model, prompt: 'One two', echo: true, logprobs: 1, max_tokens: 1 });
  assert.ok(answer.choices[0].text.startsWith('One two'));
  assert.equal(answer.choices[0].logprobs.token_logprobs[0], null);
});

test('models', async () => {
  const list = await client.models.list();
  assert.equal(list.data[0].id, model);
});

test('errors are those of the client', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'other', messages: hello }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(
    client.chat.completions.create({ model, messages: hello, max_tokens: 10_000_000 }),
    (error) => error.status === 400 && error.code === 'context_length_exceeded');
  await assert.rejects(
    client.chat.completions.create({ model, messages: hello, regex: '[a-' }), OpenAI.BadRequestError);
});

test('images are refused clearly', async () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
  await assert.rejects(
    client.chat.completions.create({ model, messages: [{ role: 'user', content: [image] }] }),
    (error) => error.status === 400 && /image/.test(error.message));
});

test('an abort ends the request at the server', async () => {
  const stream = await client.chat.completions.create({
    model, messages: hello, max_tokens: 1000, ignore_eos: true, stream: true, ...off,
  });
  let chunks = 0;
  for await (const chunk of stream) if (++chunks === 5) stream.controller.abort();
  assert.ok(await idle());
  const controller = new AbortController();
  const whole = client.chat.completions.create(
    { model, messages: hello, max_tokens: 1000, ignore_eos: true, ...off }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 200);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.ok(await idle());
});

// A proxy that says 429 once: what the server says when it is full is what makes clients try again.
test('a busy server is tried again', async () => {
  let asked = 0;
  const proxy = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    if (++asked === 1) {
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '1' });
      response.end('{"error":{"message":"busy","type":"rate_limit_error","param":null,"code":null}}');
      return;
    }
    const answer = await fetch(url + request.url, { method: 'POST', body: Buffer.concat(parts) });
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(await answer.text());
  });
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  const patient = new OpenAI({ baseURL: `http://127.0.0.1:${proxy.address().port}/v1`, apiKey: 'none', maxRetries: 2 });
  const answer = await patient.chat.completions.create({ model, messages: hello, max_tokens: 4, ...off });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(asked, 2);
  proxy.close();
  proxy.closeAllConnections();
});
