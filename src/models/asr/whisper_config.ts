/**
 * The configuration of Whisper's decoding: special tokens, languages, sizes, alignment heads, and the rules for
 * timestamps.
 *
 * @module
 */
import { ALL_LANGUAGES } from "../../media/languages.ts";
import { StartupError } from "../../base/errors.ts";
import { type Json, readNumber, readTokenIds, requireNumber } from "../../hub/model_folder.ts";
import type { NodeHeads } from "../../device/encoder_attention.ts";
import { toMask } from "../../engine/token_rules.ts";
import { type SpokenLanguages, UNSPACED_LANGUAGES } from "./recogniser.ts";
import type { TokenRule } from "../../../kernels/sample/sample_row.ts";

export interface WhisperConfig {
  readonly vocabSize: number;
  readonly startToken: number;
  readonly endToken: number;
  /** The token whose probability after the start token is the probability of silence; absent if there is none. */
  readonly noSpeechToken: number | undefined;
  /**
   * The token of the task, which follows the language token; absent in models of one language, whose prompt has
   * neither.
   */
  readonly transcribeToken: number | undefined;
  /** Replaces `transcribeToken` for translation to English; absent in models that cannot translate. */
  readonly translateToken: number | undefined;
  /** Language tokens by Whisper's code; empty in models of one language. */
  readonly languages: ReadonlyMap<string, number>;
  /** The first timestamp token: 0 s. */
  readonly timestampsStart: number;
  /** The largest timestamp token with which a window may begin. */
  readonly lastFirstTimestamp: number;
  readonly suppressedTokens: readonly number[];
  /** Maximum number of tokens of one window's text. */
  readonly maxTokens: number;
}

/** Seconds from one timestamp token to the next. */
export const TIMESTAMP_SECONDS = 0.02;

/** Default of `max_initial_timestamp_index`: the first timestamp of a window is at most 1 s. */
const MAX_INITIAL_TIMESTAMP_INDEX = 50;

/** Whisper's codes that differ from the API's. */
const WHISPER_CODES: Readonly<Record<string, string>> = { fil: "tl", jv: "jw" };

/**
 * Reads the configuration.
 *
 * @param files the folder's `config.json` and `generation_config.json`.
 * @param tokenToId returns the id of a token, given its text.
 * @throws {StartupError} when the folder does not hold a Whisper model.
 */
export function readWhisperConfig(
  { config, generationConfig }: { config: Json; generationConfig: Json },
  tokenToId: (token: string) => number | undefined,
): WhisperConfig {
  const size = (name: string) => readNumber(generationConfig, name) ?? requireNumber(config, name);
  const token = (text: string) => {
    const id = tokenToId(text);
    if (id !== undefined) return id;
    throw new StartupError(`The folder's tokenizer has no ${text}: it is not Whisper's.`);
  };
  const noTimestamps = token("<|notimestamps|>");
  const timestampsStart = noTimestamps + 1;
  const isMultilingual = generationConfig["is_multilingual"] !== false;
  const initial = generationConfig["max_initial_timestamp_index"];
  return {
    vocabSize: size("vocab_size"),
    startToken: size("decoder_start_token_id"),
    endToken: size("eos_token_id"),
    noSpeechToken: tokenToId("<|nospeech|>") ?? tokenToId("<|nocaptions|>"),
    transcribeToken: isMultilingual ? token("<|transcribe|>") : undefined,
    translateToken: isMultilingual && hasTask(generationConfig, "translate")
      ? tokenToId("<|translate|>")
      : undefined,
    languages: isMultilingual ? readLanguages(generationConfig) : new Map(),
    timestampsStart,
    lastFirstTimestamp: timestampsStart +
      (typeof initial === "number" ? initial : MAX_INITIAL_TIMESTAMP_INDEX),
    suppressedTokens: readTokenIds({ ...config, ...generationConfig }, "suppress_tokens"),
    // Half of the context as in Whisper, which keeps the other half for the text of earlier windows.
    maxTokens: Math.floor(size("max_target_positions") / 2),
  };
}

/** Lists the API's codes of the languages that the model knows. */
export function toLanguages({ languages }: Pick<WhisperConfig, "languages">): SpokenLanguages {
  if (languages.size === 0) return ["en"];
  return Object.keys(ALL_LANGUAGES).filter((code) => languages.has(WHISPER_CODES[code] ?? code));
}

/** Finds the token of a language that {@linkcode toLanguages} lists; `undefined` in models of one language. */
export function findLanguageToken(
  { languages }: Pick<WhisperConfig, "languages">,
  code: string,
): number | undefined {
  return languages.get(WHISPER_CODES[code] ?? code);
}

/** Makes the prompt of a window: the tokens for start, language and task. */
export function makePrompt(
  { startToken, transcribeToken, translateToken }: WhisperConfig,
  { languageToken, translates = false }: {
    readonly languageToken: number | undefined;
    readonly translates?: boolean | undefined;
  },
): number[] {
  return transcribeToken === undefined
    ? [startToken]
    : [startToken, languageToken!, translates ? translateToken! : transcribeToken];
}

/** Whether the language with this token puts spaces between words. */
export function hasSpaces({ languages }: WhisperConfig, token: number | undefined): boolean {
  return !UNSPACED_LANGUAGES.some((code) => token !== undefined && languages.get(code) === token);
}

/** Returns the name of the language with this token: `english`; Whisper's code if the API has no name for it. */
export function getLanguageName({ languages }: WhisperConfig, token: number | undefined): string {
  if (token === undefined) return ALL_LANGUAGES["en"]!;
  const code = [...languages].find(([, id]) => id === token)?.[0] ?? "";
  const own = Object.keys(ALL_LANGUAGES).find((each) => (WHISPER_CODES[each] ?? each) === code);
  return own === undefined ? code : ALL_LANGUAGES[own]!;
}

/** Makes a mask of the text tokens that may be sampled. */
export function makePlainTokenMask(config: WhisperConfig): Uint32Array<ArrayBuffer> {
  const suppressed = new Set(config.suppressedTokens);
  // Whisper's special tokens follow the end token.
  const ids = Array(config.endToken).keys().filter((id) => !suppressed.has(id));
  return toMask(ids, config.vocabSize);
}

/** Whether the model supports a task; a folder that lists no tasks supports all of Whisper's. */
function hasTask({ task_to_id: tasks }: Json, name: string): boolean {
  return typeof tasks !== "object" || tasks === null || name in tasks;
}

function readLanguages(generationConfig: Json): Map<string, number> {
  const table = generationConfig["lang_to_id"];
  if (typeof table !== "object" || table === null) {
    throw new StartupError(
      "The folder's generation_config.json has no lang_to_id, which multilingual models need.",
    );
  }
  return new Map(
    Object.entries(table as Record<string, number>).map(([text, id]) => [text.slice(2, -2), id]),
  );
}

/**
 * Reads `alignment_heads`: pairs of layer and head whose cross-attention aligns tokens with the audio. Without the
 * field, all heads in the upper half of the layers are used, as in openai/whisper.
 *
 * @param files the folder's `config.json` and `generation_config.json`.
 * @throws {StartupError} when a pair names no head of the model.
 */
export function readAlignmentHeads(
  { config, generationConfig }: { readonly config: Json; readonly generationConfig: Json },
): NodeHeads[] {
  const numLayers = requireNumber(config, "decoder_layers");
  const numHeads = requireNumber(config, "decoder_attention_heads");
  const pairs = generationConfig["alignment_heads"];
  if (!Array.isArray(pairs) || pairs.length === 0) {
    const heads = [...Array(numHeads).keys()];
    const layers = [...Array(numLayers).keys()].slice(Math.floor(numLayers / 2));
    return layers.map((layer) => ({ layer, heads }));
  }
  const isBelow = (value: unknown, limit: number) =>
    typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit;
  for (const pair of pairs) {
    const [layer, head] = Array.isArray(pair) ? pair : [];
    if (isBelow(layer, numLayers) && isBelow(head, numHeads)) continue;
    throw new StartupError(
      `The folder's generation_config.json has the pair ${
        JSON.stringify(pair)
      } in alignment_heads, but the decoder has only ${numLayers} layers of ${numHeads} heads, counted from 0.`,
    );
  }
  const byLayer = Map.groupBy(pairs as [number, number][], ([layer]) => layer);
  return [...byLayer].sort(([a], [b]) => a - b)
    .map(([layer, own]) => ({ layer, heads: [...new Set(own.map(([, head]) => head))] }));
}

/**
 * Determines which tokens may come next, given the window's tokens so far (without the prompt).
 *
 * The tokens of a window are, for example, `<|0.00|> text <|2.10|><|2.10|> text <|4.00|>`. Text is between two
 * timestamps, and timestamps never decrease. Of two timestamps in a row, the second begins the next text.
 *
 * @see `ApplyTimestampRules` in openai/whisper's `decoding.py`
 */
export function determineRule(
  tokens: readonly number[],
  { timestampsStart, lastFirstTimestamp, vocabSize }: Pick<
    WhisperConfig,
    "vocabSize" | "timestampsStart" | "lastFirstTimestamp"
  >,
): TokenRule {
  const lastTimestamp = vocabSize - 1;
  if (tokens.length === 0) {
    return {
      allowsText: false,
      allowsEnd: false,
      firstTimestamp: timestampsStart,
      lastTimestamp: Math.min(lastFirstTimestamp, lastTimestamp),
    };
  }
  const isTimestamp = (token: number | undefined) =>
    token !== undefined && token >= timestampsStart;
  const latest = tokens.findLast(isTimestamp)!;
  if (!isTimestamp(tokens.at(-1))) {
    return { allowsText: true, allowsEnd: true, firstTimestamp: latest + 1, lastTimestamp };
  }
  const opensText = tokens.length < 2 || isTimestamp(tokens.at(-2));
  if (opensText) {
    return { allowsText: true, allowsEnd: true, firstTimestamp: vocabSize, lastTimestamp };
  }
  return { allowsText: false, allowsEnd: true, firstTimestamp: latest, lastTimestamp };
}
