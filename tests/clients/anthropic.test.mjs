// Anthropic's own client: messages, streams, thinking, tools, structure, errors, aborts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { idle, isWeather, model, url, weather } from './common.mjs';

const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Say hello.' }];
const off = { thinking: { type: 'disabled' } };
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema, strict: true }];

test('messages', async () => {
  const answer = await client.messages.create({ model, messages, max_tokens: 16, system: 'Be brief.', ...off });
  assert.equal(answer.type, 'message');
  assert.equal(answer.role, 'assistant');
  assert.ok(answer.usage.output_tokens > 0);
});

test('a stream is put together by the client', async () => {
  const stream = client.messages.stream({ model, messages, max_tokens: 16, ...off });
  let text = '';
  stream.on('text', (more) => { text += more; });
  const answer = await stream.finalMessage();
  assert.equal(answer.content.filter((block) => block.type === 'text').map((block) => block.text).join(''), text);
});

test('thinking is a block of its own, and is taken back', async () => {
  const answer = await client.messages.create({
    model, messages, max_tokens: 60, thinking: { type: 'enabled', budget_tokens: 10 },
  });
  assert.equal(answer.content[0].type, 'thinking');
  await client.messages.create({
    model, max_tokens: 4, ...off,
    messages: [...messages, { role: 'assistant', content: answer.content }, { role: 'user', content: 'Again.' }],
  });
});

test('every choice of tools', async () => {
  for (const tool_choice of [{ type: 'any', disable_parallel_tool_use: true }, { type: 'tool', name: weather.name, disable_parallel_tool_use: true }]) {
    const answer = await client.messages.create({ model, messages, tools, tool_choice, max_tokens: 300, ...off });
    assert.equal(answer.stop_reason, 'tool_use');
    const call = answer.content.find((block) => block.type === 'tool_use');
    assert.ok(isWeather(call.input), JSON.stringify(call.input));
  }
  const none = await client.messages.create({ model, messages, tools, tool_choice: { type: 'none' }, max_tokens: 16, ...off });
  assert.notEqual(none.stop_reason, 'tool_use');
  await client.messages.create({ model, messages, tools, tool_choice: { type: 'auto' }, max_tokens: 16, ...off });
});

test('streamed calls and their results', async () => {
  const stream = client.messages.stream({
    model, messages, tools, tool_choice: { type: 'any', disable_parallel_tool_use: true }, max_tokens: 300, ...off,
  });
  const answer = await stream.finalMessage();
  const call = answer.content.find((block) => block.type === 'tool_use');
  assert.ok(isWeather(call.input));
  await client.messages.create({
    model, tools, max_tokens: 4, ...off,
    messages: [...messages, { role: 'assistant', content: answer.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '20C' }] }],
  });
});

test('counting tokens', async () => {
  const count = await client.messages.countTokens({ model, messages, ...off });
  const answer = await client.messages.create({ model, messages, max_tokens: 1, ...off });
  assert.equal(count.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens);
});

test('errors are those of the client', async () => {
  await assert.rejects(client.messages.create({ model: 'other', messages, max_tokens: 1 }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ model, messages: [], max_tokens: 1 }), Anthropic.BadRequestError);
  await assert.rejects(client.messages.create({
    model, max_tokens: 1,
    messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] }],
  }), (error) => error.status === 400 && /image/.test(error.message));
});

test('an abort ends the request at the server', async () => {
  const stream = client.messages.stream({ model, messages, max_tokens: 1000, ignore_eos: true, ...off });
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  assert.ok(await idle());
});
