// The AI SDK with its providers for OpenAI-compatible servers and for Anthropic.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, Output, streamText, tool } from 'ai';
import { isPerson, isWeather, model, person, url, weather } from './common.mjs';

const providers = {
  'openai-compatible': createOpenAICompatible({ name: 'thalweg', baseURL: url + '/v1', supportsStructuredOutputs: true })(model),
  anthropic: createAnthropic({ baseURL: url + '/v1', apiKey: 'none' })(model),
};
const options = {
  'openai-compatible': { thalweg: { reasoningEffort: 'none' } },
  anthropic: { anthropic: { thinking: { type: 'disabled' } } },
};

for (const [name, provider] of Object.entries(providers)) {
  const base = { model: provider, prompt: 'Say hello.', maxRetries: 0, providerOptions: options[name] };

  test(`${name}: text`, async () => {
    const answer = await generateText({ ...base, maxOutputTokens: 16 });
    assert.equal(typeof answer.text, 'string');
    assert.ok(answer.usage.outputTokens > 0);
  });

  test(`${name}: stream`, async () => {
    const stream = streamText({ ...base, maxOutputTokens: 16 });
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(text, await stream.text);
    assert.ok((await stream.usage).outputTokens > 0);
  });

  test(`${name}: tools`, async () => {
    const answer = await generateText({
      ...base, maxOutputTokens: 400, toolChoice: 'required',
      tools: { [weather.name]: tool({ description: weather.description, inputSchema: jsonSchema(weather.schema) }) },
    });
    assert.ok(answer.toolCalls.length > 0);
    for (const call of answer.toolCalls) assert.ok(isWeather(call.input), JSON.stringify(call.input));
  });

  test(`${name}: errors`, async () => {
    await assert.rejects(generateText({ ...base, maxOutputTokens: 10_000_000 }));
  });
}

test('openai-compatible: structure', async () => {
  const answer = await generateText({
    model: providers['openai-compatible'], prompt: 'Say hello.', maxOutputTokens: 400, maxRetries: 0,
    providerOptions: options['openai-compatible'],
    output: Output.object({ schema: jsonSchema(person) }),
  });
  assert.ok(isPerson(answer.output));
});
