// The server's API as this page needs it.
import {events} from "./sse.js";

// What the server said, or that it could not be reached.
export class ApiError extends Error {
  constructor(message, status = 0, param = null) {
    super(message);
    this.status = status;
    this.param = param;
  }
  get unreachable() { return this.status === 0; }
}

function errorOf(json, status) {
  const error = json?.error ?? {};
  return new ApiError(error.message ?? `The server answered ${status}.`, status, error.param ?? null);
}

async function send(path, options, key) {
  const headers = {...options.headers};
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, {...options, headers});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.");
  }
  if (response.ok) return response;
  throw errorOf(await response.json().catch(() => null), response.status);
}

export async function getJson(path, key) {
  return (await send(path, {}, key)).json();
}

export async function getText(path, key) {
  return (await send(path, {}, key)).text();
}

// Chunks of a chat completion as they come. Ends without an error only after "[DONE]".
export async function* streamChat(body, key, signal) {
  const response = await send("v1/chat/completions", {
    method: "POST",
    headers: {"content-type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  }, key);
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw errorOf(chunk, 500);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("The connection was lost.");
  }
  throw new ApiError("The connection was lost before the answer was complete.");
}
