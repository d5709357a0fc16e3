/**
 * Builds the prompt of a conversation with images and sounds: its tokens, and the positions of the media among them.
 *
 * @module
 */
import type { MediaSpan, SectionPositions } from "../../engine/sequence.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ChatPrompt } from "../text/chat_generation.ts";
import { MEDIA_NAMES, type Medium, type PromptMedium } from "../media_encoder.ts";
import type { ChatMessage, MessagePart } from "../task.ts";
import type { ChatTemplate } from "../text/chat/chat_template.ts";
import {
  type RenderOptions,
  type TemplateMessage,
  toTemplateMessages,
} from "../text/chat/template_message.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";

/** The representation of a medium in prompts. */
export interface MediumTokens {
  /** Its placeholder in the rendered chat template. */
  readonly placeholder: string;
  /** The token that stands for each encoder row; if absent, the placeholder's token. */
  readonly tokenId?: number | undefined;
}

interface VisionPromptOptions {
  readonly tokenizer: Pick<
    TextTokenizer,
    "template" | "encode" | "tokenToId" | "idToToken" | "addedTokens"
  >;
  readonly media: Readonly<Partial<Record<Medium, MediumTokens>>>;
}

/** The representation of a medium in the prompts of a model. */
interface Marker {
  readonly medium: Medium;
  readonly placeholder: string;
  readonly tokenId: number;
  readonly token: string;
  /** Whether the template accepts messages that are lists of parts with the medium, and messages that are strings. */
  readonly takes: { readonly parts: boolean; readonly strings: boolean };
}

const PROBE = "sphinx of black quartz";

export class VisionPrompt {
  readonly #tokenizer: VisionPromptOptions["tokenizer"];
  readonly #template: ChatTemplate;
  readonly #markers: readonly Marker[];

  /** @throws {StartupError} when there is no chat template, or the template or the tokenizer does not support a medium. */
  constructor({ tokenizer, media }: VisionPromptOptions) {
    this.#tokenizer = tokenizer;
    if (tokenizer.template === undefined) {
      throw new StartupError(
        "The folder has no chat template, which is needed to place media in prompts.",
      );
    }
    this.#template = tokenizer.template;
    this.#markers = Object.entries(media).map(([medium, tokens]) =>
      this.#makeMarker(medium as Medium, tokens)
    );
  }

  /** Counts the encoder rows that the text of a medium stands for. */
  countRows(medium: Medium, text: string): number {
    return text.split(this.#markers.find((marker) => marker.medium === medium)!.token).length - 1;
  }

  /**
   * Builds a prompt.
   *
   * @param options.media the images and sounds of the messages, in order.
   * @throws {HearthError} `invalid_value` when the template refuses the messages, or their texts contain a placeholder.
   */
  build(
    messages: readonly ChatMessage[],
    { media, ...options }: RenderOptions & { readonly media: readonly PromptMedium[] },
  ): ChatPrompt {
    messages.forEach((message, index) => this.#requirePlain(message, index));
    const rendered = this.#template.render(
      toTemplateMessages(messages, (message) => this.#toContent(message)),
      options,
    );
    const text = this.#insertTexts(rendered, media);
    const promptTokens = Int32Array.from(this.#tokenizer.encode(text));
    const spans = this.#markers
      .flatMap((marker) => findSpans(promptTokens, marker, this.#listRows(marker, media)))
      .sort((a, b) => a.start - b.start);
    const grids = spans.flatMap(({ start, from: { grid }, firstRow }): GridSpan[] =>
      grid === undefined || firstRow > 0 ? [] : [{ start, grid }]
    );
    const numAudioTokens = spans.reduce(
      (sum, { start, end, from }) => from.medium === "audio" ? sum + end - start : sum,
      0,
    );
    return {
      text,
      promptTokens,
      media: spans.map(({ start, end, from, firstRow }): MediaSpan => ({
        start,
        end,
        // An image may have several runs of tokens, each with its own rows.
        key: `${from.key}+${firstRow}`,
        source: from.source,
        firstRow,
      })),
      sectionPositions: grids.length === 0
        ? undefined
        : computeMropePositions(promptTokens.length, grids),
      ...(numAudioTokens > 0 && { numAudioTokens }),
    };
  }

  /** Replaces the placeholders with the texts of the media. */
  #insertTexts(rendered: string, media: readonly PromptMedium[]): string {
    for (const { medium, placeholder } of this.#markers) {
      const numShown = rendered.split(placeholder).length - 1;
      const numGiven = media.filter((each) => each.medium === medium).length;
      if (numShown === numGiven) continue;
      throw new HearthError(
        "invalid_value",
        `The model's chat template renders ${numShown} of ${numGiven} ${
          MEDIA_NAMES[medium].plural
        }: put them into user messages.`,
        { param: "messages" },
      );
    }
    if (media.length === 0) return rendered;
    const texts = new Map(this.#markers.map(({ medium, placeholder }) => [
      placeholder,
      media.filter((each) => each.medium === medium).map(({ text }) => text)[Symbol.iterator](),
    ]));
    const placeholders = [...texts.keys()].map((placeholder) => RegExp.escape(placeholder));
    return rendered.replaceAll(
      new RegExp(placeholders.join("|"), "g"),
      (placeholder) => texts.get(placeholder)!.next().value!,
    );
  }

  #listRows({ medium }: Marker, media: readonly PromptMedium[]): MediumRows[] {
    return media.flatMap((from) =>
      from.medium === medium ? [{ from, numRows: this.countRows(medium, from.text) }] : []
    );
  }

  #toContent({ content }: ChatMessage): TemplateMessage["content"] {
    const parts: readonly MessagePart[] = typeof content === "string"
      ? [{ type: "text", text: content }]
      : content;
    const shown = this.#markers.filter(({ medium }) => parts.some(({ type }) => type === medium));
    const takesStrings = this.#markers.every(({ takes }) => takes.strings);
    const takesParts = (shown.length > 0 ? shown : this.#markers).every(({ takes }) => takes.parts);
    if (takesParts && (shown.length > 0 || !takesStrings)) {
      return parts.map((part) => part.type === "text" ? { ...part } : { type: part.type });
    }
    const texts = parts.map((part) =>
      part.type === "text"
        ? part.text
        : this.#markers.find(({ medium }) => medium === part.type)!.placeholder
    );
    return texts.join("\n");
  }

  /** @throws {HearthError} when a text contains a placeholder. */
  #requirePlain({ content }: ChatMessage, index: number): void {
    const texts = typeof content === "string"
      ? [content]
      : content.flatMap((part) => part.type === "text" ? part.text : []);
    for (const { medium, placeholder, token } of this.#markers) {
      const found = [placeholder, token].find((each) => texts.some((text) => text.includes(each)));
      if (found === undefined) continue;
      const param = `messages[${index}].content`;
      throw new HearthError(
        "invalid_value",
        `${param}: the text contains "${found}", which stands for ${
          MEDIA_NAMES[medium].one
        } in this model's prompts.`,
        { param },
      );
    }
  }

  #makeMarker(medium: Medium, { placeholder, tokenId }: MediumTokens): Marker {
    const id = tokenId ?? this.#tokenizer.tokenToId(placeholder);
    // The template renders an added token as it is, not as the tokenizer normalizes it.
    const token = id === undefined
      ? undefined
      : this.#tokenizer.addedTokens.get(id)?.content ?? this.#tokenizer.idToToken(id);
    if (id === undefined || token === undefined) {
      throw new StartupError(
        `The tokenizer has no token for ${
          MEDIA_NAMES[medium].plural
        }: neither "${placeholder}" nor the ${medium}_token_id of config.json.`,
      );
    }
    const takes = this.#probeTemplate(medium, placeholder);
    return { medium, placeholder, tokenId: id, token, takes };
  }

  #probeTemplate(medium: Medium, placeholder: string): Marker["takes"] {
    const shows = (content: TemplateMessage["content"], wanted: readonly string[]) => {
      try {
        const rendered = this.#template.render([{ role: "user", content }]);
        return wanted.every((each) => rendered.split(each).length === 2);
      } catch (error) {
        if (error instanceof HearthError) return false;
        throw new StartupError((error as Error).message, { cause: error });
      }
    };
    const both = [placeholder, PROBE];
    const parts = shows([{ type: medium }, { type: "text", text: PROBE }], both);
    const strings = shows(PROBE, [PROBE]);
    if (parts || (strings && shows(both.join("\n"), both))) return { parts, strings };
    const { one, plural } = MEDIA_NAMES[medium];
    throw new StartupError(
      `The chat template does not support ${plural}: for a message with ${one} it renders no "${placeholder}".`,
    );
  }
}

/** A medium in a prompt, with the number of its rows. */
interface MediumRows {
  readonly from: PromptMedium;
  readonly numRows: number;
}

/** A run of tokens that take their embeddings from a medium's rows. */
interface RowSpan {
  readonly start: number;
  end: number;
  readonly from: PromptMedium;
  readonly firstRow: number;
}

/** Finds the runs of a medium's tokens. Each run belongs to one image or sound. */
function findSpans(
  tokens: Int32Array,
  { medium, tokenId }: Marker,
  media: readonly MediumRows[],
): RowSpan[] {
  if (media.length === 0) return [];
  const spans: RowSpan[] = [];
  let token = 0;
  for (const { from, numRows } of media) {
    for (let row = 0; row < numRows; row++, token++) {
      const next = tokens.indexOf(tokenId, token);
      if (next < 0) throw new Error(`The prompt has fewer ${medium} tokens than its media take.`);
      const last = spans.at(-1);
      if (last !== undefined && row > 0 && next === last.end) last.end++;
      else spans.push({ start: next, end: next + 1, from, firstRow: row });
      token = next;
    }
  }
  if (tokens.includes(tokenId, token)) {
    throw new Error(`The prompt has more ${medium} tokens than its media take.`);
  }
  return spans;
}

// Positions for rotary embeddings in sections (M-RoPE), as in Qwen2-VL (arXiv 2409.12191). In text, all three sections
// advance together. The tokens of an image have the same time, and differ in height and width. The text after an image
// begins after the image's largest position.

/** The tokens of an image: frame by frame, and row by row within a frame. */
interface GridSpan {
  /** Index of its first token in the prompt. */
  readonly start: number;
  /** Number of tokens along time, height and width. */
  readonly grid: readonly [number, number, number];
}

/**
 * Computes the positions of a prompt's tokens.
 *
 * @param spans the images in the prompt, in order.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { prompt: [time, height, width], offset } = computeMropePositions(6, [{ start: 1, grid: [1, 2, 2] }]);
 * assert.deepEqual([...time], [0, 1, 1, 1, 1, 3]);
 * assert.deepEqual([...height], [0, 1, 1, 2, 2, 3]);
 * assert.deepEqual([...width], [0, 1, 2, 1, 2, 3]);
 * assert.equal(offset, -2);
 * ```
 */
export function computeMropePositions(
  numTokens: number,
  spans: readonly GridSpan[],
): SectionPositions {
  const prompt = [0, 1, 2].map(() => new Int32Array(numTokens)) as [
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const [time, height, width] = prompt;
  let token = 0;
  let position = 0;
  const addText = (end: number) => {
    for (; token < end; token++, position++) {
      for (const section of prompt) section[token] = position;
    }
  };
  for (const { start, grid: [frames, rows, columns] } of spans) {
    addText(start);
    for (let frame = 0; frame < frames; frame++) {
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++, token++) {
          time[token] = position + frame;
          height[token] = position + row;
          width[token] = position + column;
        }
      }
    }
    position += Math.max(frames, rows, columns);
  }
  addText(numTokens);
  return { prompt, offset: position - numTokens };
}
