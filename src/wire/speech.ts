/**
 * The body of a speech request, in Hearth's own format (`messages`) or OpenAI's (`input`).
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";
import { SOUND_FORMATS, type SoundFormat } from "../media/sound_format.ts";
import { ChatRequest } from "./chat_request.ts";
import { anyText, flag, integerFrom, numberFrom, parseRequest, text } from "./fields.ts";

/** Longest text of a request, in characters: about ten hours of speech. */
const MAX_CHARS = 500_000;

/** A format of OpenAI's API that is not supported: the answer is MP3 instead. */
const UNWRITTEN = "aac";

const voiceWanted = "the name of a voice, or an object with its id";

/** A speech request. `null` counts as absent; unknown fields are ignored. */
export const SpeechRequest = z.object({
  model: ChatRequest.shape.model,
  input: anyText().nullish()
    .describe(`The text to speak, at most ${MAX_CHARS} characters; the answer is the audio`),
  messages: ChatRequest.shape.messages.nullish().describe(
    "Instead of input: the text parts of the last user message are spoken; the answer is JSON. " +
      "An audio part next to them is a recording whose voice is cloned, if the model supports it",
  ),
  voice: z.union([text(voiceWanted), z.object({ id: text("the name of a voice") })], {
    error: voiceWanted,
  }).nullish().describe("One of GET /audio/voices; the first of them if absent"),
  response_format: z.enum([...SOUND_FORMATS, UNWRITTEN], {
    error: `one of ${SOUND_FORMATS.join(", ")}`,
  }).nullish()
    .describe(
      "Default mp3, or wav with messages; pcm is 24 kHz, 16 bits, one channel, no header; for " +
        "aac the answer is mp3",
    ),
  speed: numberFrom(0.25, 4).nullish().describe("Default 1; the pitch does not change"),
  instructions: anyText().nullish()
    .describe("Ignored: no voice follows instructions"),
  stream_format: z.enum(["audio", "sse"], { error: "audio or sse" }).nullish()
    .describe("audio sends the audio itself, sse sends events that carry it; default audio"),
  stream: flag().nullish()
    .describe("With input the audio is always streamed, with messages never"),
  seed: integerFrom(-1, 2 ** 32 - 1).nullish()
    .describe("The same seed gives the same audio; default 0; -1 means a random seed"),
}, { error: "a JSON object" })
  .refine(({ input, messages }) => (input ?? null) === null || (messages ?? null) === null, {
    path: ["messages"],
    error: "no value together with input",
  })
  .refine(({ input, messages }) => (input ?? null) !== null || (messages ?? null) !== null, {
    path: ["input"],
    error: "a text to speak, here or in messages",
  })
  .refine(({ messages, stream_format: form }) => !messages || form !== "sse", {
    path: ["stream_format"],
    error: "audio or no value together with messages, whose answer is not streamed",
  })
  .refine(({ messages, stream }) => !messages || !stream, {
    path: ["stream"],
    error: "false or no value together with messages, whose answer is not streamed",
  })
  .meta({ id: "SpeechRequest", anyOf: [{ required: ["input"] }, { required: ["messages"] }] });

export type SpeechRequest = z.output<typeof SpeechRequest>;

export interface ParsedSpeechRequest {
  readonly model: string;
  readonly input: string | undefined;
  readonly messages: ChatRequest["messages"] | undefined;
  readonly voice: string | undefined;
  readonly format: SoundFormat;
  readonly speed: number;
  /** Whether the audio is sent in events. */
  readonly sendsEvents: boolean;
  readonly seed: number;
  /** Warnings about fields that are ignored. */
  readonly warnings: readonly string[];
}

/**
 * Parses a request.
 *
 * @throws {HearthError} `unsupported_format` for an unknown format, `invalid_value` for any other field.
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
      ...instructions ? ["instructions are ignored: no voice follows them"] : [],
      ...isUnwritten ? ["response_format aac is not supported; the answer is mp3"] : [],
    ],
    model: request.model,
    input: request.input ?? undefined,
    messages: request.messages ?? undefined,
    voice: typeof voice === "string" ? voice : voice?.id,
    format: isUnwritten ? "mp3" : wanted ?? (request.messages ? "wav" : "mp3"),
    speed: request.speed ?? 1,
    sendsEvents: request.stream_format === "sse",
    seed: request.seed === -1 ? drawSeed() : request.seed ?? 0,
  };
}

function drawSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

/**
 * Checks the length of the text.
 *
 * @param param path of the text in the request.
 * @throws {HearthError} `invalid_value` when the text is empty or too long.
 */
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
      output_tokens: integerFrom(0).describe("Always 0: audio does not count as tokens"),
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
    language: z.string().describe("A BCP 47 tag: en-US"),
  })).describe("The first is the default"),
}).meta({ id: "VoiceList" });

export type VoiceList = z.output<typeof VoiceList>;

export function makeVoiceList(
  voices: readonly { readonly id: string; readonly language: string }[],
): VoiceList {
  return {
    object: "list",
    voices: voices.map(({ id, language }) => ({ id, name: id, language })),
  };
}
