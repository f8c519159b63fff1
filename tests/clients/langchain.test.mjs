// LangChain's client for OpenAI: messages, streams, tools, structured answers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChatOpenAI } from '@langchain/openai';
import { isPerson, isWeather, model, person, url, weather } from './common.mjs';

const chat = new ChatOpenAI({
  model, apiKey: 'none', maxRetries: 0, maxTokens: 400, configuration: { baseURL: url + '/v1' },
  modelKwargs: { thinking: { type: 'disabled' } },
});
const tool = { type: 'function', function: { name: weather.name, description: weather.description, parameters: weather.schema } };

test('invoke', async () => {
  const answer = await chat.invoke('Say hello.', { max_tokens: 16 });
  assert.equal(typeof answer.content, 'string');
  assert.ok(answer.usage_metadata.total_tokens > 0);
});

test('stream', async () => {
  let chunks = 0;
  for await (const chunk of await chat.stream('Say hello.')) {
    assert.notEqual(chunk, undefined);
    ++chunks;
  }
  assert.ok(chunks > 1);
});

test('a tool that must be called', async () => {
  const answer = await chat.bindTools([tool], { tool_choice: weather.name }).invoke('Say hello.');
  assert.ok(answer.tool_calls.length > 0);
  for (const call of answer.tool_calls) assert.ok(isWeather(call.args), JSON.stringify(call.args));
});

test('structured answers, as a call and as JSON', async () => {
  for (const method of ['functionCalling', 'jsonSchema']) {
    const structured = chat.withStructuredOutput(person, { name: 'person', method, strict: true });
    const answer = await structured.invoke('Say hello.');
    assert.ok(isPerson(answer), method + JSON.stringify(answer));
  }
});

test('errors', async () => {
  const other = new ChatOpenAI({ model: 'other', apiKey: 'none', maxRetries: 0, configuration: { baseURL: url + '/v1' } });
  await assert.rejects(other.invoke('x'));
});
