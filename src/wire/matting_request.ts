/**
 * A request for background removal, as JSON or as a form.
 *
 * @module
 */
import { z } from "zod";
import { ChatRequest } from "./chat_request.ts";
import { type Color as ColorLevels, parseColor } from "./css_colors.ts";
import { flag, text } from "./fields.ts";
import { parseRequest } from "./parse.ts";

const colorWanted = "a colour such as #ffffff, #fff, #ffffff80 or white";
const switchWanted = "true or false";

const Color = z.string({ error: colorWanted })
  .refine((color) => parseColor(color) !== undefined, { error: colorWanted })
  .describe("Background colour; transparent if absent");

const TEXTS = {
  mask_only: "Answer with the alpha channel alone, as a grey image; default false",
  crop: "Cut the image to where the subject is; default false",
  refine: "Let the outline follow the image's own edges, and take the background's colour out of " +
    "the subject's rim; default false",
} as const;

/** A request as JSON. Fields not named here are ignored. */
export const MattingRequest = z.object({
  model: ChatRequest.shape.model,
  messages: ChatRequest.shape.messages.describe(
    "The last user message has one image part; text is passed over",
  ),
  background: Color.nullish(),
  mask_only: flag().nullish().describe(TEXTS.mask_only),
  crop: flag().nullish().describe(TEXTS.crop),
  refine: flag().nullish().describe(TEXTS.refine),
}, { error: "a JSON object" })
  .refine(isMaskOrBackground, { path: ["background"], error: "nothing beside mask_only" })
  .meta({ id: "MattingRequest" });

export type MattingRequest = z.output<typeof MattingRequest>;

const Switch = z.enum(["true", "false"], { error: switchWanted })
  .transform((word) => word === "true");

const Fields = z.object({
  model: text("the name of the loaded model").optional()
    .describe("The loaded model's id, alias or owner/name; not checked if absent"),
  background: Color.optional(),
  mask_only: Switch.optional().meta({ description: TEXTS.mask_only }),
  crop: Switch.optional().meta({ description: TEXTS.crop }),
  refine: Switch.optional().meta({ description: TEXTS.refine }),
}).refine(isMaskOrBackground, { path: ["background"], error: "nothing beside mask_only" });

/** A request as a form; fields not named here are ignored. */
export const MattingForm = z.object({
  image: z.unknown().meta({
    type: "string",
    format: "binary",
    description: "The image file: JPEG, PNG, WebP, AVIF, HEIC, GIF, TIFF or BMP; at most 100 MiB",
  }),
  ...Fields.shape,
}).meta({ id: "MattingForm" });

/** The options of a request. */
interface MattingOptions {
  readonly background?: ColorLevels | undefined;
  readonly maskOnly?: boolean | undefined;
  readonly crop?: boolean | undefined;
  readonly refine?: boolean | undefined;
}

interface MattingFields {
  readonly background?: string | null | undefined;
  readonly mask_only?: boolean | null | undefined;
  readonly crop?: boolean | null | undefined;
  readonly refine?: boolean | null | undefined;
}

function isMaskOrBackground({ background, mask_only }: MattingFields): boolean {
  return mask_only !== true || (background ?? undefined) === undefined;
}

/**
 * Checks a form's fields; one that is empty counts as absent.
 *
 * @throws {HearthError} `invalid_value`.
 */
export function parseMattingForm(
  fields: Iterable<readonly [name: string, value: string]>,
): { readonly model: string | undefined; readonly options: MattingOptions } {
  const given = Object.fromEntries([...fields].filter(([, value]) => value !== ""));
  const { model, ...parsed } = parseRequest(Fields, given);
  return { model, options: mattingOptions(parsed) };
}

/** The options of a JSON request. */
export function mattingOptions(
  { background, mask_only, crop, refine }: MattingFields,
): MattingOptions {
  return {
    background: background ? parseColor(background) : undefined,
    maskOnly: mask_only ?? undefined,
    crop: crop ?? undefined,
    refine: refine ?? undefined,
  };
}
