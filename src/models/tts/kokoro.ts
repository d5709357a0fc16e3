/**
 * Kokoro, a StyleTTS 2 model without diffusion. eSpeak NG turns text into phonemes, and one graph turns phonemes, a
 * style and a speed into sound.
 *
 * @module
 */
import type { OpenContext } from "../model.ts";
import { loadTtsTokenizer, type Synthesizer, TtsGraph } from "./synthesizer.ts";
import { readVoices, type VectorVoice } from "./voices.ts";
import { HearthError } from "../../base/errors.ts";

const DEFAULT_RATE_HZ = 24_000;
const DEFAULT_STYLE_WIDTH = 256;
/** Longest input in training, without the token at each end. */
const MAX_TOKENS = 512;
const NUM_END_TOKENS = 2;
/**
 * Languages by the first letter of a voice's name. Kokoro has other languages too, but no phonemes are available for
 * them.
 */
const LANGUAGES: Readonly<Record<string, string>> = { a: "en-US", b: "en-GB" };
/** The default voice, which has the authors' best grade. */
const BEST_VOICE = "af_heart";

/** @throws {StartupError} when a file is missing from the folder, such as a voice. */
export async function loadKokoro(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const graph = await TtsGraph.open(context, {
    name: "model",
    known: /^(input_ids|style|speed)$/,
  });
  const declared = graph.inputs.find(({ name }) => name === "style")?.shape.at(-1);
  const width = typeof declared === "number" ? declared : DEFAULT_STYLE_WIDTH;
  const voices = await readVoices(folder, { width, languageByPrefix: (id) => LANGUAGES[id[0]!] });
  return {
    sampleRateHz: Number(folder.config["sampling_rate"] ?? DEFAULT_RATE_HZ),
    voices: voices.sort((a, b) => Number(b.id === BEST_VOICE) - Number(a.id === BEST_VOICE)),
    maxTokens: MAX_TOKENS,
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

/** eSpeak's names of the accents. */
const ACCENTS: Readonly<Record<string, string>> = { "en-US": "en-us", "en-GB": "en" };

/** Punctuation, which eSpeak drops but Kokoro uses. */
const PUNCTUATION = /(\s*[;:,.!?\u00a1\u00bf\u2014\u2026"\u00ab\u00bb\u201c\u201d(){}[\]]+\s*)+/g;

/** Characters of scripts that English eSpeak would read by their names. */
const UNKNOWN_SCRIPTS =
  /[[\p{L}\p{M}\p{N}]--[\p{scx=Latin}\p{scx=Greek}\p{scx=Common}\p{scx=Inherited}]]+/gv;

/** The letter "A" among spelled letters, which eSpeak would read as the article. */
const LETTER_A = /\s*(?:(?<=\b\p{Lu} )A\b|\bA(?= \p{Lu}\b))\s*/u;
const LETTER_A_SOUNDS = "\u02c8e\u026a";

/** Phonemes that Kokoro spells differently or does not have. */
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
 * @param language `en-US` or `en-GB`.
 * @returns phonemes in the International Phonetic Alphabet, with the text's punctuation; none for words in scripts
 * other than Latin and Greek.
 */
export async function toPhonemes(text: string, language: string): Promise<string> {
  const { phonemize } = await loadPhonemizer();
  const accent = ACCENTS[language] ?? "en-us";
  let sounds = "";
  let at = 0;
  const say = async (stretch: string) => {
    const spoken: string[] = [];
    for (const [index, words] of stretch.split(LETTER_A).entries()) {
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
      "This executable was built without eSpeak NG, which this model's voices " +
        "need to turn words into phonemes.",
      { cause },
    );
  }
}
