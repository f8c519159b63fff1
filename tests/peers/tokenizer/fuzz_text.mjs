// Random text for the comparison: characters of every kind that both sides call assigned.

// U+0085 and U+FEFF: JavaScript's \s takes the second for white space and not the first, Unicode
// (and the reference library) the other way round. Surrogates are no characters.
const excluded = (c) => c === 0x85 || c === 0xfeff || (c >= 0xd800 && c <= 0xdfff);

// A small generator with a seed, so that a find can be made again.
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { next, below: (n) => Math.floor(next() * n), pick: (list) => list[Math.floor(next() * list.length)] };
}

// Code points assigned in `ranges` (the other side's list) and here, grouped by general category.
export function assignedByCategory(ranges) {
  const names = ["L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co"];
  const tests = names.map((name) => new RegExp(`\\p{${name}}`, "u"));
  const groups = names.map(() => []);
  for (const [first, last] of ranges) {
    for (let c = first; c <= last; ++c) {
      if (excluded(c)) continue;
      const character = String.fromCodePoint(c);
      const at = tests.findIndex((test) => test.test(character));
      if (at >= 0) groups[at].push(character);
    }
  }
  return groups.filter((group) => group.length > 0);
}

const common = [..." \n\r\t'0123456789abcdefABCDEF.,;:!?-_(){}[]<>/\\\"#@$%^&*+=|~`éüß中文字日本語のカタ한국어سلامنд😀👍🏽‍️"];

export function fuzzText(rng, groups, specials) {
  let text = "";
  for (let parts = 1 + rng.below(12); parts > 0; --parts) {
    const kind = rng.below(10);
    const length = 1 + rng.below(rng.below(8) === 0 ? 60 : 8);
    if (kind === 0) {
      text += rng.pick(common).repeat(length);
    } else if (kind === 1) {
      text += rng.pick(specials);
    } else if (kind < 6) {
      for (let i = 0; i < length; ++i) text += rng.pick(common);
    } else {
      const group = rng.pick(groups);
      for (let i = 0; i < length; ++i) text += rng.pick(rng.below(3) ? group : rng.pick(groups));
    }
  }
  return text;
}
