/**
 * Live transcription in OpenAI's format: the events, and the settings of a session in the current and the older shape.
 *
 * @module
 */
import { z } from "zod";
import type { LiveFormat } from "../media/audio/stored_sound.ts";
import { HearthError } from "../base/errors.ts";
import { detectsLanguage, LANGUAGES, readLanguage } from "../media/languages.ts";
import { numberFrom, parseRequest } from "./fields.ts";
import { toNestedError } from "./error_body.ts";

/** The settings of a session. */
export interface RealtimeSettings {
  readonly format: LiveFormat;
  /** A language code of the API; if absent, the language is detected. */
  readonly language: string | undefined;
  /** How turns are detected; `undefined` if the client says where turns end. */
  readonly turns: RealtimeTurns | undefined;
}

/** How turns are detected: the fields of OpenAI's `server_vad`. */
export interface RealtimeTurns {
  /** Likelihood of speech, 0 to 1, at or above which audio counts as speech. */
  readonly threshold: number;
  /** How much audio before the speech is part of the turn. */
  readonly prefixMs: number;
  /** How much silence ends a turn. */
  readonly silenceMs: number;
}

/** OpenAI's own defaults. */
const DEFAULT_TURNS: RealtimeTurns = { threshold: 0.5, prefixMs: 300, silenceMs: 500 };
const PCM16: LiveFormat = { coding: "pcm16", sampleRateHz: 24_000 };
const TELEPHONE_HZ = 8_000;

/** Settings of a session before its first update. */
export const DEFAULT_SETTINGS: RealtimeSettings = {
  format: PCM16,
  language: undefined,
  turns: DEFAULT_TURNS,
};

const TurnDetection = z.object({
  type: z.literal("server_vad", { error: '"server_vad", or null for none' }),
  threshold: numberFrom(0, 1).optional().describe("Default 0.5"),
  prefix_padding_ms: numberFrom(0, 10_000).optional().describe("Default 300"),
  silence_duration_ms: numberFrom(50, 30_000).optional().describe("Default 500"),
}).transform(({ threshold, prefix_padding_ms, silence_duration_ms }): RealtimeTurns => ({
  threshold: threshold ?? DEFAULT_TURNS.threshold,
  prefixMs: prefix_padding_ms ?? DEFAULT_TURNS.prefixMs,
  silenceMs: silence_duration_ms ?? DEFAULT_TURNS.silenceMs,
})).nullish();

const languageError = "a language's code, such as en, that the model knows";
const Transcription = z.object({
  model: z.string().nullish().describe("Ignored: the loaded model is used"),
  language: z.string({ error: languageError })
    .refine((text) => detectsLanguage(text) || readLanguage(text) !== undefined, {
      error: languageError,
    })
    .transform(readLanguage)
    .nullish(),
}).nullish();

const sessionError = { error: "an object" };
const kindError = {
  error: '"transcription": this server transcribes live speech, and nothing more',
};

/** The session of `session.update`. */
const Session = z.object({
  type: z.literal("transcription", kindError).optional(),
  audio: z.object({
    input: z.object({
      format: z.discriminatedUnion("type", [
        z.object({
          type: z.literal("audio/pcm"),
          rate: numberFrom(8_000, 48_000).optional().describe("Default 24000"),
        }),
        z.object({ type: z.literal("audio/pcmu") }),
        z.object({ type: z.literal("audio/pcma") }),
      ], { error: "one of audio/pcm, audio/pcmu and audio/pcma as its type" }).optional(),
      transcription: Transcription,
      turn_detection: TurnDetection,
    }, sessionError).optional(),
  }, sessionError).optional(),
}, sessionError);

const FORMATS: Readonly<Record<string, LiveFormat>> = {
  pcm16: PCM16,
  g711_ulaw: { coding: "mu-law", sampleRateHz: TELEPHONE_HZ },
  g711_alaw: { coding: "A-law", sampleRateHz: TELEPHONE_HZ },
};

/** The session of `transcription_session.update`. */
const OlderSession = z.object({
  input_audio_format: z.enum(["pcm16", "g711_ulaw", "g711_alaw"], {
    error: "one of pcm16, g711_ulaw and g711_alaw",
  }).optional(),
  input_audio_transcription: Transcription,
  turn_detection: TurnDetection,
}, sessionError);

/**
 * Applies an update to the settings. Fields that are absent from the update are unchanged. `null` as `turn_detection`
 * turns the detection of turns off; `null` as `language` turns the detection of the language on.
 *
 * @param event an event of type `session.update`, or of the older `transcription_session.update`.
 * @param model the loaded model. If it does not know the language, but OpenAI's API does, the language is ignored:
 * clients often send their user's language.
 * @throws {HearthError} `invalid_value`.
 */
export function updateSettings(
  settings: RealtimeSettings,
  event: { readonly type: string },
  model: { readonly id: string; readonly languages?: readonly string[] | undefined },
): RealtimeSettings {
  const next = readUpdate(settings, event);
  const { language } = next;
  if (language === undefined || model.languages?.includes(language)) return next;
  if (language in LANGUAGES) return { ...next, language: undefined };
  throw new HearthError(
    "invalid_value",
    `language: want one that ${model.id} knows, saw ${JSON.stringify(language)}.`,
    { param: "language" },
  );
}

function readUpdate(settings: RealtimeSettings, event: { readonly type: string }) {
  if (event.type === "transcription_session.update") {
    const { session } = parseRequest(z.object({ session: OlderSession }), event);
    return merge(settings, {
      format: session.input_audio_format && FORMATS[session.input_audio_format],
      transcription: session.input_audio_transcription,
      turns: session.turn_detection,
    });
  }
  const { session } = parseRequest(z.object({ session: Session }), event);
  const { format, transcription, turn_detection: turns } = session.audio?.input ?? {};
  return merge(settings, { format: format && readFormat(format), transcription, turns });
}

function readFormat(
  format: { readonly type: string; readonly rate?: number | undefined },
): LiveFormat {
  if (format.type === "audio/pcmu") return FORMATS["g711_ulaw"]!;
  if (format.type === "audio/pcma") return FORMATS["g711_alaw"]!;
  return { coding: "pcm16", sampleRateHz: format.rate ?? PCM16.sampleRateHz };
}

interface Changes {
  readonly format: LiveFormat | undefined;
  readonly transcription: z.output<typeof Transcription>;
  readonly turns: RealtimeTurns | null | undefined;
}

function merge(
  settings: RealtimeSettings,
  { format, transcription, turns }: Changes,
): RealtimeSettings {
  return {
    format: format ?? settings.format,
    language: transcription === undefined || transcription?.language === undefined
      ? settings.language
      : transcription?.language ?? undefined,
    turns: turns === undefined ? settings.turns : turns ?? undefined,
  };
}

/** A session as the server describes it. */
interface ShownSession {
  readonly id: string;
  /** Id of the loaded model. */
  readonly model: string;
  readonly settings: RealtimeSettings;
}

/** Describes the session in the shape of `session.updated`. */
export function describeSession({ id, model, settings }: ShownSession): Record<string, unknown> {
  const { format: { coding, sampleRateHz }, language, turns } = settings;
  const format = coding === "pcm16"
    ? { type: "audio/pcm", rate: sampleRateHz }
    : { type: coding === "mu-law" ? "audio/pcmu" : "audio/pcma" };
  return {
    type: "transcription",
    object: "realtime.transcription_session",
    id,
    expires_at: 0,
    include: null,
    audio: {
      input: {
        format,
        transcription: { model, language: language ?? null, prompt: null },
        noise_reduction: null,
        turn_detection: turns === undefined ? null : describeTurns(turns),
      },
    },
  };
}

/** Describes the session in the shape of `transcription_session.updated`. */
export function describeBetaSession(
  { id, model, settings }: ShownSession,
): Record<string, unknown> {
  const { format: { coding }, language, turns } = settings;
  const [name] = Object.entries(FORMATS).find(([, format]) => format.coding === coding)!;
  return {
    object: "realtime.transcription_session",
    id,
    expires_at: 0,
    include: null,
    input_audio_format: name,
    input_audio_transcription: { model, language: language ?? null, prompt: null },
    input_audio_noise_reduction: null,
    turn_detection: turns === undefined ? null : describeTurns(turns),
  };
}

function describeTurns({ threshold, prefixMs, silenceMs }: RealtimeTurns) {
  return {
    type: "server_vad",
    threshold,
    prefix_padding_ms: prefixMs,
    silence_duration_ms: silenceMs,
  };
}

/** Maximum number of commas in a long event. No client needs more: almost all of a long event is one base64 string. */
const MAX_COMMAS = 1000;
/** Events of more bytes are long. */
const LONG_BYTES = 64 * 1024;

const ClientEvent = z.looseObject({
  type: z.string({ error: "a string" }),
  event_id: z.string({ error: "a string" }).optional(),
}, { error: "an object" });

const AppendEvent = z.object({ audio: z.string({ error: "the audio in base64" }) });

/** An event that a client sends. */
export type ClientEvent = z.output<typeof ClientEvent>;

/** Parses a client's event. @throws {HearthError} `invalid_json`, `invalid_value`, `payload_too_large`. */
export function parseClientEvent(bytes: Uint8Array): ClientEvent {
  if (bytes.length > LONG_BYTES) requireFewValues(bytes);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    const { message } = cause as SyntaxError;
    throw new HearthError("invalid_json", `The event is not JSON: ${message}`, { cause });
  }
  return parseRequest(ClientEvent, value);
}

/** Refuses events with many values: once decoded, a short value takes many times the memory of its JSON. */
function requireFewValues(bytes: Uint8Array): void {
  let numCommas = 0;
  for (let at = bytes.indexOf(0x2c); at >= 0; at = bytes.indexOf(0x2c, at + 1)) {
    if (++numCommas <= MAX_COMMAS) continue;
    throw new HearthError("payload_too_large", `An event may have at most ${MAX_COMMAS} values.`);
  }
}

/** Decodes the audio of `input_audio_buffer.append`. @throws {HearthError} `invalid_value`. */
export function decodeAppended(event: ClientEvent): Uint8Array<ArrayBuffer> {
  const { audio } = parseRequest(AppendEvent, event);
  try {
    return Uint8Array.fromBase64(audio);
  } catch {
    throw new HearthError("invalid_value", "audio: want base64, saw something else.", {
      param: "audio",
    });
  }
}

/** An event that the server sends, before it has an id. */
export type ServerEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Builds an event about the text of a turn. */
export function makeTranscriptionEvent(
  type: "delta" | "completed" | "failed",
  itemId: string,
  fields: Readonly<Record<string, unknown>>,
): ServerEvent {
  const name = `conversation.item.input_audio_transcription.${type}`;
  const logprobs = type === "failed" ? {} : { logprobs: null };
  return { type: name, item_id: itemId, content_index: 0, ...fields, ...logprobs };
}

/** Builds the event for a client's mistake, or for a failure of the server. The session continues. */
export function makeErrorEvent(error: HearthError, eventId: string | undefined): ServerEvent {
  return { type: "error", error: { ...describeError(error), event_id: eventId ?? null } };
}

/** Describes an error inside an event. */
export function describeError(error: HearthError): Record<string, unknown> {
  return { param: null, ...toNestedError(error).error };
}
