/**
 * Speech synthesis families that compute a whole utterance at once, rather than token by token: Kokoro, Supertonic and
 * VITS.
 *
 * @module
 */
import type { OpenContext } from "../model.ts";
import {
  type Feed,
  freeFeed,
  loadTtsTokenizer,
  makeTextFeeds,
  type Synthesizer,
  TtsGraph,
} from "./synthesizer.ts";
import { readVoices, type VectorVoice } from "./voices.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { yieldToEvents } from "../../base/timing.ts";
import { copyNormalNoise } from "../../graph/rewrite/seeded_noise.ts";

const KOKORO_RATE_HZ = 24_000;
const KOKORO_STYLE_WIDTH = 256;
/** Longest input in training, in tokens. */
const KOKORO_MAX_TOKENS = 512;
/** Number of special tokens: one at each end. */
const NUM_END_TOKENS = 2;
/**
 * Languages by the first letter of a voice's name. Kokoro has other languages too, but their phonemes are not
 * available.
 */
const KOKORO_LANGUAGES: Readonly<Record<string, string>> = { a: "en-US", b: "en-GB" };
/** The default voice, which the model's authors rate best. */
const BEST_VOICE = "af_heart";

/**
 * Loads Kokoro, a StyleTTS 2 model without diffusion. eSpeak NG converts text to phonemes, and one graph converts
 * phonemes, a style and a speed to sound.
 *
 * @throws {StartupError} when a file is missing from the folder, such as a voice.
 */
export async function loadKokoro(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const graph = await TtsGraph.open(context, {
    name: "model",
    known: /^(input_ids|style|speed)$/,
  });
  const declared = graph.inputs.find(({ name }) => name === "style")?.shape.at(-1);
  const width = typeof declared === "number" ? declared : KOKORO_STYLE_WIDTH;
  const voices = await readVoices(folder, {
    width,
    getLanguage: (id) => KOKORO_LANGUAGES[id[0]!],
  });
  return {
    sampleRateHz: Number(folder.config["sampling_rate"] ?? KOKORO_RATE_HZ),
    voices: voices.sort((a, b) => Number(b.id === BEST_VOICE) - Number(a.id === BEST_VOICE)),
    maxTokens: KOKORO_MAX_TOKENS,
    hasSpeed: true,
    tokenize: async (text, { language }) => tokenizer.encode(await toPhonemes(text, language)),
    synthesize: async (tokens, { voice, speed, noiseOffset }) => {
      const { style } = voice as VectorVoice;
      // A voice has a style vector for each length of text.
      const row = Math.min(tokens.length - NUM_END_TOKENS, style.length / width - 1);
      return await graph.read({
        input_ids: { values: tokens, dims: [1, tokens.length] },
        style: { values: style.subarray(row * width, (row + 1) * width), dims: [1, width] },
        speed: { values: [speed], dims: [1] },
      }, { output: "waveform", offset: noiseOffset });
    },
    dispose: () => graph.release(),
  };
}

/** Names of the accents in eSpeak. */
const ACCENTS: Readonly<Record<string, string>> = { "en-US": "en-us", "en-GB": "en" };

/** Punctuation, which eSpeak drops but Kokoro uses. */
const PUNCTUATION = /(\s*[;:,.!?\u00a1\u00bf\u2014\u2026"\u00ab\u00bb\u201c\u201d(){}[\]]+\s*)+/g;

/** Characters of other scripts, which eSpeak would read by their English names. */
const UNKNOWN_SCRIPTS =
  /[[\p{L}\p{M}\p{N}]--[\p{scx=Latin}\p{scx=Greek}\p{scx=Common}\p{scx=Inherited}]]+/gv;

/** The letter "A" among spelled-out letters, which eSpeak would read as the article. */
const LETTER_A = /\s*(?:(?<=\b\p{Lu} )A\b|\bA(?= \p{Lu}\b))\s*/u;
const LETTER_A_SOUNDS = "\u02c8e\u026a";

/** Replacements for phonemes that Kokoro spells differently or does not have. */
const RESPELLED: readonly (readonly [RegExp, string])[] = [
  [/\u02b2/g, "j"],
  [/r/g, "\u0279"],
  [/x/g, "k"],
  [/\u026c/g, "l"],
  // The American pronunciation of "ninety".
  [/(?<=n\u02c8a\u026an)ti(?!\u02d0)/g, "di"],
  // A plural or possessive s belongs to the previous word.
  [/ z(?=[\s;:,.!?\u2014\u2026"()]|$)/g, "z"],
];

/**
 * Converts text to phonemes.
 *
 * @param language `en-US` or `en-GB`.
 * @returns phonemes in the International Phonetic Alphabet, with the text's punctuation. Words in scripts other than
 * Latin and Greek are left out.
 */
export async function toPhonemes(text: string, language: string): Promise<string> {
  const { phonemize } = await loadPhonemizer();
  const accent = ACCENTS[language] ?? "en-us";
  let sounds = "";
  let at = 0;
  const say = async (phrase: string) => {
    const spoken: string[] = [];
    for (const [index, words] of phrase.split(LETTER_A).entries()) {
      if (index > 0) spoken.push(LETTER_A_SOUNDS);
      if (/[\p{L}\p{N}]/u.test(words)) spoken.push(...await phonemize(words, accent));
    }
    sounds += spoken.length > 0 ? spoken.join(" ") : " ";
  };
  const known = text.replace(UNKNOWN_SCRIPTS, " ");
  for (const match of known.matchAll(PUNCTUATION)) {
    await say(known.slice(at, match.index));
    sounds += match[0];
    at = match.index + match[0].length;
  }
  await say(known.slice(at));
  return RESPELLED.reduce((all, [pattern, sound]) => all.replace(pattern, sound), sounds).trim();
}

/** @throws {HearthError} `unsupported_by_model` in an executable that was built without the phonemizer. */
async function loadPhonemizer(): Promise<typeof import("phonemizer")> {
  try {
    return await import("phonemizer");
  } catch (cause) {
    throw new HearthError(
      "unsupported_by_model",
      "This executable was built without eSpeak NG, which this model needs to convert words to phonemes.",
      { cause },
    );
  }
}

const SUPERTONIC_MAX_TOKENS = 600;
/** Number of denoising steps, recommended by the authors as a balance of quality and speed. */
const NUM_STEPS = 5;
/** The model's own speed value for a speed of 1. */
const BASE_SPEED = 1.05;

/**
 * Loads Supertonic, which encodes characters, and refines noise step by step into a latent representation of the sound
 * (flow matching).
 *
 * @throws {StartupError} when a file is missing from the folder, such as a voice.
 */
export async function loadSupertonic(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const { sampleRateHz, styleWidth, latentChannels, latentSamples } = readSupertonicConfig(folder);
  const tokenizer = await loadTtsTokenizer(folder);
  const voices = await readVoices(folder, { width: styleWidth, getLanguage: () => "en" });
  const open = (name: string, known: RegExp) => TtsGraph.open(context, { name, known });
  const encoder = await open("text_encoder", /^(input_ids|attention_mask|style)$/);
  const denoiser = await open(
    "latent_denoiser",
    /^(style|noisy_latents|latent_mask|encoder_outputs|attention_mask|timestep|num_inference_steps)$/,
  );
  const decoder = await open("voice_decoder", /^latents$/);
  return {
    sampleRateHz,
    voices,
    maxTokens: SUPERTONIC_MAX_TOKENS,
    hasSpeed: true,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: async (tokens, { voice, speed, noiseOffset, signal }) => {
      const values = (voice as VectorVoice).style;
      const style = { values, dims: [1, values.length / styleWidth, styleWidth] };
      const text = makeTextFeeds(tokens);
      const encoded = await encoder.run({ ...text, style });
      const encodedText = encoded["last_hidden_state"]!;
      let latents: Feed | undefined;
      try {
        const [seconds = 0] = await encoder.take(encoded, "durations");
        const numSamples = seconds / (BASE_SPEED * speed) * sampleRateHz;
        const columns = Math.max(1, Math.ceil(numSamples / latentSamples));
        latents = {
          values: copyNormalNoise(noiseOffset, latentChannels * columns),
          dims: [1, latentChannels, columns],
        };
        for (let step = 0; step < NUM_STEPS; step++) {
          await yieldToEvents();
          signal.throwIfAborted();
          const { denoised_latents: next } = await denoiser.run({
            ...text,
            style,
            noisy_latents: latents,
            latent_mask: { values: new Array(columns).fill(1), dims: [1, columns] },
            encoder_outputs: encodedText,
            timestep: { values: [step], dims: [1] },
            num_inference_steps: { values: [NUM_STEPS], dims: [1] },
          });
          freeFeed(latents);
          latents = next!;
        }
        const sound = await decoder.read({ latents }, { output: "waveform" });
        return sound.slice(0, Math.ceil(numSamples));
      } finally {
        encodedText.dispose();
        if (latents !== undefined) freeFeed(latents);
      }
    },
    dispose: async () => {
      for (const graph of [encoder, denoiser, decoder]) await graph.release();
    },
  };
}

function readSupertonicConfig({ config, path }: ModelFolder) {
  const number = (name: string) => {
    const value = config[name];
    if (typeof value === "number" && value > 0) return value;
    throw new StartupError(`${path}/config.json has no ${name}, which Supertonic needs.`);
  };
  const compress = number("chunk_compress_factor");
  return {
    sampleRateHz: number("sampling_rate"),
    styleWidth: number("style_dim"),
    latentChannels: number("latent_dim") * compress,
    /** Number of samples per column of the latent representation. */
    latentSamples: number("base_chunk_size") * compress,
  };
}

/** Maximum number of tokens of an utterance. Every second one is a blank. */
const VITS_MAX_TOKENS = 1_000;
const VITS_RATE_HZ = 16_000;

/**
 * Loads VITS, as used by the Massively Multilingual Speech project (MMS): one graph converts characters to sound.
 *
 * @throws {StartupError} when a file is missing from the folder.
 */
export async function loadVits(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const graph = await TtsGraph.open(context, {
    name: "model",
    known: /^(input_ids|attention_mask)$/,
  });
  return {
    sampleRateHz: Number(folder.config["sampling_rate"] ?? VITS_RATE_HZ),
    voices: [{ id: "default", language: readMmsLanguage(tokenizer.config) }],
    maxTokens: VITS_MAX_TOKENS,
    hasSpeed: false,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: (tokens, { noiseOffset }) =>
      graph.read(makeTextFeeds(tokens), { output: "waveform", offset: noiseOffset }),
    dispose: () => graph.release(),
  };
}

/** Reads the language as a BCP 47 tag. MMS gives three-letter codes. */
function readMmsLanguage(tokenizerConfig: Json): string {
  try {
    return new Intl.Locale(String(tokenizerConfig["language"] ?? "en")).language;
  } catch {
    return "en";
  }
}
