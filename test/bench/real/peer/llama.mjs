/**
 * llama.cpp on Node, with node-llama-cpp's prebuilt binary and the given number of sequences in one batch. Requests and
 * answers are lines of JSON.
 *
 *     node llama.mjs <model.gguf> <cpu|vulkan> <sequences> [threads]
 */
import { createInterface } from "node:readline";
import process from "node:process";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [modelPath, device, sequences, wantedThreads] = process.argv.slice(2);
const gpu = device === "cpu" ? false : device;
const llama = await getLlama({ gpu, build: "never", logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath });
// By default, llama.cpp starts twice as many threads as there are cores, which mostly wait for each other.
const threads = Number(wantedThreads ?? llama.cpuMathCores);
const alone = (await model.createContext({ contextSize: 4096, threads })).getSequence();
const together = await model.createContext({ contextSize: 512, sequences: Number(sequences), threads });
const free = [alone, ...Array.from({ length: Number(sequences) }, () => together.getSequence())];

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** The first of several simultaneous requests gets the long context, unless the caller asks for a shared one. */
async function answer({ prompt, maxTokens, shares }) {
  const text = `<|im_start|>user\n${prompt}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n`;
  const tokens = model.tokenize(text, true);
  const sequence = free.splice(shares ? free.findIndex((each) => each !== alone) : 0, 1)[0];
  let newTokens = 0;
  try {
    await sequence.clearHistory();
    for await (const _ of sequence.evaluate(tokens, { temperature: 0, yieldEogToken: true })) {
      if (++newTokens >= maxTokens) break;
    }
  } finally {
    if (sequence === alone) free.unshift(sequence);
    else free.push(sequence);
  }
  return { promptTokens: tokens.length, newTokens };
}

say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...request } = JSON.parse(line);
  answer(request)
    .then((result) => say({ id, ...result }), (error) => say({ id, error: String(error.stack) }));
}
process.exit(0);
