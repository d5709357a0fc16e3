/**
 * A request for background removal, as JSON or as a form.
 *
 * @module
 */
import { z } from "zod";
import { ChatRequest } from "./chat_request.ts";
import { flag, parseRequest, text } from "./fields.ts";

const colorWanted = "a colour such as #ffffff, #fff, #ffffff80 or white";
const switchWanted = "true or false";
const MASK_ALONE = "no value together with mask_only";

const Color = z.string({ error: colorWanted })
  .refine((color) => parseColor(color) !== undefined, { error: colorWanted })
  .describe("Background colour; transparent if absent");

const TEXTS = {
  mask_only: "Return only the alpha channel, as a grey image; default false",
  crop: "Crop the image to its subject; default false",
  refine: "Align the outline with the image's edges, and remove the background's colour from the " +
    "subject's rim; default false",
} as const;

/** A JSON request. Unknown fields are ignored. */
export const MattingRequest = z.object({
  model: ChatRequest.shape.model,
  messages: ChatRequest.shape.messages.describe(
    "The last user message has one image part; text is ignored",
  ),
  background: Color.nullish(),
  mask_only: flag().nullish().describe(TEXTS.mask_only),
  crop: flag().nullish().describe(TEXTS.crop),
  refine: flag().nullish().describe(TEXTS.refine),
}, { error: "a JSON object" })
  .refine(isMaskOrBackground, { path: ["background"], error: MASK_ALONE })
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
}).refine(isMaskOrBackground, { path: ["background"], error: MASK_ALONE });

/** A form. Unknown fields are ignored. */
export const MattingForm = z.object({
  image: z.unknown().meta({
    type: "string",
    format: "binary",
    description: "The image file: JPEG, PNG, WebP, AVIF, HEIC, GIF, TIFF or BMP; at most 100 MiB",
  }),
  ...Fields.shape,
}).meta({ id: "MattingForm" });

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

/** Validates a form's fields. An empty field counts as absent. @throws {HearthError} `invalid_value`. */
export function parseMattingForm(
  fields: Iterable<readonly [name: string, value: string]>,
): { readonly model: string | undefined; readonly options: MattingOptions } {
  const given = Object.fromEntries([...fields].filter(([, value]) => value !== ""));
  const { model, ...parsed } = parseRequest(Fields, given);
  return { model, options: readMattingOptions(parsed) };
}

/** Reads the options of a JSON request. */
export function readMattingOptions(
  { background, mask_only, crop, refine }: MattingFields,
): MattingOptions {
  return {
    background: background ? parseColor(background) : undefined,
    maskOnly: mask_only ?? undefined,
    crop: crop ?? undefined,
    refine: refine ?? undefined,
  };
}

/** The colour names of CSS, each followed by its hexadecimal digits. */
const NAMES =
  `aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc
  bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a
  burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 cornflowerblue 6495ed
  cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan 008b8b darkgoldenrod b8860b
  darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b darkmagenta 8b008b
  darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000 darksalmon e9967a
  darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f darkslategrey 2f4f4f darkturquoise 00ced1
  darkviolet 9400d3 deeppink ff1493 deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff
  firebrick b22222 floralwhite fffaf0 forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff
  gold ffd700 goldenrod daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0
  hotpink ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa
  lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080
  lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey d3d3d3
  lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa lightslategray 778899
  lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime 00ff00 limegreen 32cd32 linen faf0e6
  magenta ff00ff maroon 800000 mediumaquamarine 66cdaa mediumblue 0000cd mediumorchid ba55d3
  mediumpurple 9370db mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen 00fa9a
  mediumturquoise 48d1cc mediumvioletred c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1
  moccasin ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23
  orange ffa500 orangered ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee
  palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd
  powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue 4169e1
  saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d
  silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa
  springgreen 00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0
  violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 yellow ffff00 yellowgreen 9acd32
  transparent 00000000`.split(/\s+/);

const COLORS = new Map(
  Array.from({ length: NAMES.length / 2 }, (_, i) => [NAMES[2 * i]!, NAMES[2 * i + 1]!]),
);

/** Colour levels from 0 to 255; an alpha of 255 is opaque. */
type ColorLevels = readonly [red: number, green: number, blue: number, alpha: number];

/**
 * Parses `#rgb`, `#rgba`, `#rrggbb`, `#rrggbbaa` or a colour name, in upper or lower case.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(parseColor("#1af"), [0x11, 0xaa, 0xff, 255]);
 * assert.deepEqual(parseColor("Tomato"), [255, 99, 71, 255]);
 * assert.deepEqual(parseColor("#00000080"), [0, 0, 0, 128]);
 * assert.equal(parseColor("tomatoes"), undefined);
 * ```
 */
export function parseColor(text: string): ColorLevels | undefined {
  const lower = text.trim().toLowerCase();
  const digits = COLORS.get(lower) ?? /^#([\da-f]+)$/.exec(lower)?.[1];
  if (digits === undefined || ![3, 4, 6, 8].includes(digits.length)) return undefined;
  const long = digits.length < 6 ? digits.replace(/./g, "$&$&") : digits;
  const levels = long.padEnd(8, "f").match(/../g)!.map((part) => parseInt(part, 16));
  return levels as unknown as ColorLevels;
}
