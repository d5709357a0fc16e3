/**
 * The body of a speech request, in the specification's form (`messages`) or in OpenAI's (`input`).
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";
import { SOUND_FORMATS, type SoundFormat } from "../media/sound_format.ts";
import { ChatRequest } from "./chat_request.ts";
import { flag, integerFrom, numberFrom, text } from "./fields.ts";
import { parseRequest } from "./parse.ts";

/** Some ten hours of speech. */
const MAX_CHARS = 500_000;

/** OpenAI's format that is not written. */
const UNWRITTEN = "aac";

const voiceWanted = "the name of a voice, or an object with its id";

/** A speech request. `null` stands for an absent field; fields not named here are ignored. */
export const SpeechRequest = z.object({
  model: ChatRequest.shape.model,
  input: z.string({ error: "a string" }).nullish()
    .describe(`The text to speak, at most ${MAX_CHARS} characters; the answer is the sound`),
  messages: ChatRequest.shape.messages.nullish().describe(
    "Instead of input: the text parts of the last user message are spoken; the answer is JSON. " +
      "One audio part beside them is a recording whose voice is cloned, if the model supports that",
  ),
  voice: z.union([text(voiceWanted), z.object({ id: text("the name of a voice") })], {
    error: voiceWanted,
  }).nullish().describe("One of GET /audio/voices; the first of them if absent"),
  response_format: z.enum([...SOUND_FORMATS, UNWRITTEN], {
    error: `one of ${SOUND_FORMATS.join(", ")}`,
  }).nullish()
    .describe(
      "Default mp3, with messages wav; pcm is 24 kHz, 16 bits, one channel, no header; for " +
        "aac the answer is mp3",
    ),
  speed: numberFrom(0.25, 4).nullish().describe("Default 1; the pitch stays"),
  instructions: z.string({ error: "a string" }).nullish()
    .describe("Passed over: no voice takes any"),
  stream_format: z.enum(["audio", "sse"], { error: "audio or sse" }).nullish()
    .describe("The sound itself, or events that carry it; default audio"),
  stream: flag().nullish()
    .describe("Beside input the sound is always sent as it is made; not beside messages"),
  seed: integerFrom(-1, 2 ** 32 - 1).nullish()
    .describe("The same seed gives the same sound; default 0; -1 stands for a random one"),
}, { error: "a JSON object" })
  .refine(({ input, messages }) => (input ?? null) === null || (messages ?? null) === null, {
    path: ["messages"],
    error: "nothing beside input",
  })
  .refine(({ input, messages }) => (input ?? null) !== null || (messages ?? null) !== null, {
    path: ["input"],
    error: "a text to speak, here or in messages",
  })
  .refine(({ messages, stream_format: form }) => !messages || form !== "sse", {
    path: ["stream_format"],
    error: "audio or nothing beside messages, whose answer comes in one piece",
  })
  .refine(({ messages, stream }) => !messages || !stream, {
    path: ["stream"],
    error: "false or nothing beside messages, whose answer comes in one piece",
  })
  .meta({ id: "SpeechRequest", anyOf: [{ required: ["input"] }, { required: ["messages"] }] });

export type SpeechRequest = z.output<typeof SpeechRequest>;

/** The parsed request. */
export interface ParsedSpeechRequest {
  readonly model: string;
  readonly input: string | undefined;
  readonly messages: ChatRequest["messages"] | undefined;
  readonly voice: string | undefined;
  readonly format: SoundFormat;
  readonly speed: number;
  readonly isEvents: boolean;
  readonly seed: number;
  /** What is passed over. */
  readonly warnings: readonly string[];
}

/**
 * Checks a request.
 *
 * @throws {HearthError} `unsupported_format` for a format that is not written, `invalid_value` for any other field.
 */
export function parseSpeech(body: unknown): ParsedSpeechRequest {
  const format = (body as { response_format?: unknown } | null)?.response_format;
  const isWritten = [...SOUND_FORMATS, UNWRITTEN, undefined, null].includes(format as SoundFormat);
  if (typeof format === "string" && !isWritten) {
    throw new HearthError(
      "unsupported_format",
      `response_format: want one of ${SOUND_FORMATS.join(", ")}, saw ${
        JSON.stringify(format.slice(0, 40))
      }.`,
      { param: "response_format" },
    );
  }
  const request = parseRequest(SpeechRequest, body);
  const { voice, instructions, response_format: wanted } = request;
  const isUnwritten = wanted === UNWRITTEN;
  return {
    warnings: [
      ...instructions ? ["instructions are passed over: no voice takes any"] : [],
      ...isUnwritten ? ["response_format aac is not written; the answer is mp3"] : [],
    ],
    model: request.model,
    input: request.input ?? undefined,
    messages: request.messages ?? undefined,
    voice: typeof voice === "string" ? voice : voice?.id,
    format: isUnwritten ? "mp3" : wanted ?? (request.messages ? "wav" : "mp3"),
    speed: request.speed ?? 1,
    isEvents: request.stream_format === "sse",
    seed: request.seed === -1 ? randomSeed() : request.seed ?? 0,
  };
}

function randomSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

/** @throws {HearthError} `invalid_value` when there is no text, or more than is taken; `param` is its path. */
export function requireSpeakable(text: string, param: string): void {
  const isEmpty = text.trim() === "";
  if (!isEmpty && text.length <= MAX_CHARS) return;
  const seen = isEmpty ? "nothing" : `${text.length}`;
  throw new HearthError(
    "invalid_value",
    `${param}: want a text of 1 to ${MAX_CHARS} characters, saw ${seen}.`,
    { param },
  );
}

/** One event of a stream. */
export const SpeechEvent = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("speech.audio.delta"),
    audio: z.base64().describe("The next bytes of the file"),
  }),
  z.object({
    type: z.literal("speech.audio.done"),
    usage: z.object({
      input_tokens: integerFrom(0),
      output_tokens: integerFrom(0).describe("Always 0: sound is not counted in tokens"),
      total_tokens: integerFrom(0),
    }),
  }),
]).meta({ id: "SpeechEvent" });

export type SpeechEvent = z.output<typeof SpeechEvent>;

/** The voices of the loaded model. */
export const VoiceList = z.object({
  object: z.literal("list"),
  voices: z.array(z.object({
    id: z.string(),
    name: z.string(),
    language: z.string().describe("As in BCP 47: en-US"),
  })).describe("The first is the default"),
}).meta({ id: "VoiceList" });

export type VoiceList = z.output<typeof VoiceList>;

/** The list of voices. */
export function voiceList(
  voices: readonly { readonly id: string; readonly language: string }[],
): VoiceList {
  return {
    object: "list",
    voices: voices.map(({ id, language }) => ({ id, name: id, language })),
  };
}
