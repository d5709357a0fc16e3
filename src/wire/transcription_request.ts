/**
 * The fields of a transcription request besides its file.
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";
import { detectsLanguage, LANGUAGES, readLanguage } from "../media/languages.ts";
import { numberFrom, parseRequest } from "./fields.ts";

const GRANULARITIES = ["word", "segment"] as const;
/** The two names of the field that gives the granularities. Clients send it once per value. */
const NAMES = ["timestamp_granularities[]", "timestamp_granularities"] as const;

/** Matches both names, also with an index in the brackets, which some forms add. */
const INDEXED = /^timestamp_granularities(\[\d*\])?$/;

/** The parts of a transcript that can have times. */
export type Granularity = typeof GRANULARITIES[number];

const Granularities = z.array(z.enum(GRANULARITIES)).optional();

/** Form fields for the granularity of times. */
const GranularityFields = {
  [NAMES[0]]: Granularities.describe(
    "Which parts have times, with response_format verbose_json; default segment",
  ),
  [NAMES[1]]: Granularities.describe(
    "Another name of timestamp_granularities[], for clients that leave out the brackets",
  ),
};

/** The granularities that a form asks for. */
interface AskedGranularities {
  /** Only `segment` if none is requested, or if they are ignored. */
  readonly granularities: ReadonlySet<Granularity>;
  readonly warnings: readonly string[];
}

/**
 * Reads the granularities. In formats other than `verbose_json` they are ignored, with a warning.
 *
 * @param fields the form's fields, in order.
 * @throws {HearthError} `invalid_value` for an unknown value.
 */
function readGranularities(
  fields: readonly (readonly [name: string, value: string])[],
  format: string,
): AskedGranularities {
  const given = fields.filter(([name]) => INDEXED.test(name)).flatMap(([name, values]) =>
    values.split(/[\s,"'[\]]+/).filter((value) => value !== "").map((value) =>
      // Some clients send the plural.
      [name, value.replace(/^(word|segment)s$/, "$1")] as const
    )
  );
  for (const [param, value] of given) {
    if ((GRANULARITIES as readonly string[]).includes(value)) continue;
    throw new HearthError(
      "invalid_value",
      `${param}: want ${GRANULARITIES.join(", ")} or both, saw ${
        JSON.stringify(value.slice(0, 40))
      }.`,
      { param },
    );
  }
  const [first] = given;
  if (first === undefined) return { granularities: new Set(["segment"]), warnings: [] };
  if (format !== "verbose_json") {
    const warning = `${first[0]} is ignored; use it together with response_format verbose_json`;
    return { granularities: new Set(["segment"]), warnings: [warning] };
  }
  return { granularities: new Set(given.map(([, value]) => value as Granularity)), warnings: [] };
}

const FORMATS = ["json", "text", "verbose_json", "srt", "vtt"] as const;

/** Formats that can be streamed. */
const STREAMED_FORMATS: readonly string[] = ["json", "text", "verbose_json"];

const languageWanted = `one of ${
  Object.keys(LANGUAGES).join(", ")
}, or another that the model knows`;
const streamWanted = "true or false";

const Included = z.string().optional()
  .describe("Ignored: transcriptions have no log-probabilities");

const INCLUDED = /^include(\[\d*\])?$/;

/** Spellings of true and false: Python capitalizes them, and some clients send numbers. */
const FLAGS: Readonly<Record<string, boolean>> = {
  ...{ true: true, 1: true, yes: true, on: true },
  ...{ false: false, 0: false, no: false, off: false },
};

const Fields = z.object({
  language: z.string()
    .refine((text) => detectsLanguage(text) || readLanguage(text) !== undefined, {
      error: languageWanted,
    })
    .transform(readLanguage)
    .optional().describe(
      "A code (`en`), or a common spelling of it (`EN`, `en-US`, `eng`, `English`); detected from " +
        "the audio if absent, empty or `auto`",
    ),
  response_format: z.enum(FORMATS, { error: `one of ${FORMATS.join(", ")}` }).optional()
    .describe("Default json"),
  temperature: numberFrom(0, 1).optional().meta({
    description: "0 to 1, default 0; parts that fail are decoded again at higher temperatures",
  }),
  stream: z.string()
    .refine((text) => Object.hasOwn(FLAGS, text.toLowerCase()), { error: streamWanted })
    .transform((text) => FLAGS[text.toLowerCase()]!)
    .optional().meta({
      enum: ["true", "false"],
      description: "Answer as server-sent events; default false",
    }),
  model: z.string().optional().describe("Ignored: the loaded model is used"),
  prompt: z.string().optional().describe("Ignored"),
  "include[]": Included,
  include: Included,
});

/** A transcription request as a form. Unknown fields are ignored. */
export const TranscriptionRequest = z.object({
  file: z.unknown().meta({
    type: "string",
    format: "binary",
    description: "The audio file: wav, mp3, m4a, ogg, flac, webm; at most 100 MiB",
  }),
  ...Fields.shape,
  ...GranularityFields,
}).meta({ id: "TranscriptionRequest" });

/** A translation request as a form. Unlike a transcription, a translation is English text and has no word times. */
export const TranslationRequest = TranscriptionRequest.omit({
  "timestamp_granularities[]": true,
  timestamp_granularities: true,
}).extend({
  to_language: z.enum(["en"], { error: '"en", the only target language' }).optional(),
}).meta({ id: "TranslationRequest" });

export interface TranscriptionOptions {
  readonly language: string | undefined;
  readonly format: typeof FORMATS[number];
  readonly temperature: number;
  readonly stream: boolean;
  /** The parts that have times in `verbose_json`. */
  readonly granularities: ReadonlySet<Granularity>;
  /** Warnings about fields that are ignored. */
  readonly warnings: readonly string[];
}

/**
 * Validates a form's fields. An empty field counts as absent. If a field is repeated, its last value counts; of the
 * granularities, all values count.
 *
 * @throws {HearthError} `unsupported_format` for the format, `invalid_value` for any other field.
 */
export function parseTranscription(
  fields: readonly (readonly [name: string, value: string])[],
): TranscriptionOptions {
  const present = fields.filter(([, value]) => value !== "");
  const given = Object.fromEntries(present);
  const format = given["response_format"] ?? "json";
  const stream = FLAGS[given["stream"]?.toLowerCase() ?? ""] ?? false;
  if (!(FORMATS as readonly string[]).includes(format)) throw explainUnsupported(format, FORMATS);
  if (stream && !STREAMED_FORMATS.includes(format)) {
    throw explainUnsupported(format, STREAMED_FORMATS, "with stream=true ");
  }
  const { language, temperature = 0, response_format = "json" } = parseRequest(Fields, given);
  const { granularities, warnings } = readGranularities(present, response_format);
  const included = present.filter(([name]) => INCLUDED.test(name))
    .map(([name, value]) => `${name} ${value} is ignored: it is not supported`);
  const options = { language, format: response_format, temperature, stream, granularities };
  return { ...options, warnings: [...warnings, ...included] };
}

/**
 * Validates the fields of a translation's form.
 *
 * @throws {HearthError} as for a transcription; `invalid_value` for a language other than English, and for word times.
 */
export function parseTranslation(
  fields: readonly (readonly [name: string, value: string])[],
): TranscriptionOptions {
  const present = fields.filter(([, value]) => value !== "");
  parseRequest(TranslationRequest.pick({ to_language: true }), Object.fromEntries(present));
  const options = parseTranscription(fields);
  if (!options.granularities.has("word")) return options;
  const [param] = present.find(([name]) => name.startsWith("timestamp_granularities"))!;
  throw new HearthError(
    "invalid_value",
    `${param}: want segment, saw "word": translated words have no times of their own.`,
    { param },
  );
}

function explainUnsupported(seen: string, wanted: readonly string[], when = ""): HearthError {
  return new HearthError(
    "unsupported_format",
    `response_format: ${when}want one of ${wanted.join(", ")}, saw ${
      JSON.stringify(seen.slice(0, 40))
    }.`,
    { param: "response_format" },
  );
}
