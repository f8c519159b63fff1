// Server-sent events out of a stream of bytes (WHATWG HTML 9.2): one value for each event's data.

// Lines of a stream of text, whatever ends them.
async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = parts.pop();
    yield* parts;
  }
}

export async function* events(stream) {
  let data = [];
  for await (const line of lines(stream)) {
    if (line === "") {
      if (data.length > 0) yield data.join("\n");
      data = [];
    } else if (line.startsWith("data:")) {
      data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
    }
  }
}
