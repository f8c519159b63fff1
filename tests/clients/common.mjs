// What all clients share: where the server is, and tools and schemas to ask with.
export const url = process.env.THALWEG_URL;
export const model = process.env.THALWEG_MODEL;
if (!url || !model) throw new Error('THALWEG_URL and THALWEG_MODEL: run through run.sh');

export const weather = {
  name: 'get_weather',
  description: 'The weather of a city',
  schema: {
    type: 'object',
    properties: {
      city: { type: 'string', enum: ['Paris', 'Rome'] },
      days: { type: 'integer', minimum: 1, maximum: 7 },
    },
    required: ['city', 'days'],
    additionalProperties: false,
  },
};

export const person = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 20 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
  },
  required: ['name', 'age'],
  additionalProperties: false,
};

export function isWeather(args) {
  return ['Paris', 'Rome'].includes(args.city) && Number.isInteger(args.days) && args.days >= 1 && args.days <= 7;
}

export function isPerson(value) {
  return typeof value.name === 'string' && Number.isInteger(value.age) && Object.keys(value).length === 2;
}

// Whether the server has nothing under way, within five seconds.
export async function idle() {
  for (let i = 0; i < 100; ++i) {
    const load = await (await fetch(url + '/load')).json();
    if (load.server_load === 0 && load.running === 0) return true;
    await new Promise((done) => setTimeout(done, 50));
  }
  return false;
}
