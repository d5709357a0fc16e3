/**
 * The settings of a live transcription session, in both shapes of OpenAI's API.
 *
 * @module
 */
import { z } from "zod";
import type { LiveFormat } from "../media/audio/stored_sound.ts";
import { HearthError } from "../base/errors.ts";
import { detectsLanguage, LANGUAGES, readLanguage } from "../media/languages.ts";
import { numberFrom } from "./fields.ts";
import { parseRequest } from "./parse.ts";

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
  /** Likelihood, 0 to 1, from which audio counts as speech. */
  readonly threshold: number;
  /** Audio before the speech that is part of the turn. */
  readonly prefixMs: number;
  /** Silence that ends a turn. */
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
 * Applies an update to the settings. Only fields that it names change; `null` turns turn detection off, or makes the
 * language be detected.
 *
 * @param event of type `session.update`, or of the older `transcription_session.update`.
 * @param model the loaded model. A language of OpenAI's API that it does not know is ignored, because clients often
 * send their user's language.
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
export function describeOlderSession(
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
