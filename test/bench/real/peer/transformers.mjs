/**
 * transformers.js on Node, as its users run it: a pipeline, an unchanged ONNX Runtime, and one request at a time.
 * Requests and answers are lines of JSON.
 *
 *     node transformers.mjs <folder of model folders> <model> <task> <dtype> <device> [threads]
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";
import {
  AutoTokenizer,
  env,
  pipeline,
  RawAudio,
  StyleTextToSpeech2Model,
  Tensor,
  TextStreamer,
} from "@huggingface/transformers";

const [modelsFolder, model, task, dtype, device, threads] = process.argv.slice(2);
const session_options = threads && { intraOpNumThreads: Number(threads) };
const options = { dtype, device, session_options };
env.allowRemoteModels = false;
env.localModelPath = modelsFolder;

const run = task === "kokoro" ? await loadKokoro() : await pipeline(task, model, options);

/** Loads the model, its tokenizer and phonemizer.js like kokoro-js, because there is no pipeline for Kokoro. */
async function loadKokoro() {
  const { phonemize } = await import("phonemizer");
  const speech = await StyleTextToSpeech2Model.from_pretrained(model, options);
  const tokenizer = await AutoTokenizer.from_pretrained(model);
  const voice = readFileSync(`${modelsFolder}/${model}/voices/af_heart.bin`);
  const styles = new Float32Array(voice.buffer, voice.byteOffset, voice.byteLength / 4);
  return async (text) => {
    const phonemes = (await phonemize(text, "en-us")).join(" ");
    const { input_ids } = tokenizer(phonemes, { truncation: true });
    const row = (input_ids.dims.at(-1) - 2) * 256;
    const { waveform } = await speech({
      input_ids,
      style: new Tensor("float32", styles.slice(row, row + 256), [1, 256]),
      speed: new Tensor("float32", [1], [1]),
    });
    return new RawAudio(waveform.data, 24_000);
  };
}

const ANSWERS = {
  "text-generation": async ({ prompt, maxTokens }) => {
    const messages = [{ role: "user", content: prompt }];
    let newTokens = 0;
    const streamer = new TextStreamer(run.tokenizer, {
      skip_prompt: true,
      callback_function: () => {},
      token_callback_function: (tokens) => newTokens += tokens.length,
    });
    const text = run.tokenizer.apply_chat_template(messages, {
      tokenize: false,
      add_generation_prompt: true,
    });
    await run(messages, { max_new_tokens: maxTokens, do_sample: false, streamer });
    return { promptTokens: run.tokenizer.encode(text).length, newTokens };
  },
  "automatic-speech-recognition": async ({ samples, options }) => {
    const bytes = readFileSync(samples);
    const sound = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    const { text } = await run(sound, options);
    return { text };
  },
  "feature-extraction": async ({ texts }) => {
    const vectors = await run(texts, { pooling: "mean", normalize: true });
    return { count: vectors.dims[0], first: [...vectors.data.slice(0, 8)] };
  },
  "background-removal": async ({ image }) => {
    const cutOut = await run(image);
    const png = await (Array.isArray(cutOut) ? cutOut[0] : cutOut).toSharp().png().toBuffer();
    return { bytes: png.length };
  },
  "text-to-speech": async ({ text, options }) => {
    const sound = await run(text, options);
    return { samples: sound.audio.length, bytes: sound.toBlob().size };
  },
};

ANSWERS.kokoro = ANSWERS["text-to-speech"];

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

say({ ready: true });
let last = Promise.resolve();
for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...request } = JSON.parse(line);
  last = last.then(() => ANSWERS[task](request))
    .then((answer) => say({ id, ...answer }), (error) => say({ id, error: String(error.stack) }));
}
process.exit(0);
