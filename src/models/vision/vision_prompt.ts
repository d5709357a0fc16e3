/**
 * Tokenizes a conversation with images, and finds the positions of the images among the tokens.
 *
 * @module
 */
import type { EmbeddingSource } from "../../decoder/decoder.ts";
import type { MediaSpan, SectionPositions } from "../../engine/sequence.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ChatPrompt } from "../text/chat_generation.ts";
import type { ChatMessage, MessagePart } from "../task.ts";
import type { ChatTemplate } from "../text/chat/chat_template.ts";
import {
  type RenderOptions,
  type TemplateMessage,
  toTemplateMessages,
} from "../text/chat/template_message.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";

/** The properties of an image that the prompt depends on. */
export interface PromptImage {
  /** Images with equal keys are equal. */
  readonly key: string;
  /** The image's text in the prompt. */
  readonly text: string;
  /** Number of the image's tokens along time, height and width, for M-RoPE. */
  readonly grid?: readonly [number, number, number] | undefined;
  readonly source: EmbeddingSource;
}

interface VisionPromptOptions {
  readonly tokenizer: Pick<TextTokenizer, "template" | "encode" | "tokenToId" | "idToToken">;
  /** Placeholder of an image in the rendered chat template. */
  readonly placeholder: string;
  /** The image token; if absent, the token of the placeholder. */
  readonly imageTokenId?: number | undefined;
}

const PROBE = "sphinx of black quartz";

export class VisionPrompt {
  readonly #tokenizer: VisionPromptOptions["tokenizer"];
  readonly #template: ChatTemplate;
  readonly #placeholder: string;
  readonly #imageTokenId: number;
  readonly #imageToken: string;
  /** Whether the template accepts messages as lists of parts, and as strings. */
  readonly #takes: { readonly parts: boolean; readonly strings: boolean };

  /** @throws {StartupError} when there is no chat template, or if it or the tokenizer does not support images. */
  constructor({ tokenizer, placeholder, imageTokenId }: VisionPromptOptions) {
    this.#tokenizer = tokenizer;
    if (tokenizer.template === undefined) {
      throw new StartupError("The folder has no chat template, which shows where images go.");
    }
    this.#template = tokenizer.template;
    this.#placeholder = placeholder;
    const id = imageTokenId ?? tokenizer.tokenToId(placeholder);
    const token = id === undefined ? undefined : tokenizer.idToToken(id);
    if (id === undefined || token === undefined) {
      throw new StartupError(
        `The tokenizer has no token for images: neither "${placeholder}" nor the image_token_id of config.json.`,
      );
    }
    this.#imageTokenId = id;
    this.#imageToken = token;
    this.#takes = this.#probeTemplate();
  }

  /** Number of the image's encoder rows. */
  numRows({ text }: Pick<PromptImage, "text">): number {
    return text.split(this.#imageToken).length - 1;
  }

  /**
   * Builds a prompt.
   *
   * @param options.images the images of the messages, in order.
   * @throws {HearthError} `invalid_value` when the template refuses the messages, or their texts contain the image
   * placeholder.
   */
  build(
    messages: readonly ChatMessage[],
    { images, ...options }: RenderOptions & { readonly images: readonly PromptImage[] },
  ): ChatPrompt {
    messages.forEach((message, index) => this.#requirePlain(message, index));
    const rendered = this.#template.render(
      toTemplateMessages(messages, (message) => this.#toContent(message)),
      options,
    );
    const between = rendered.split(this.#placeholder);
    if (between.length - 1 !== images.length) {
      throw new HearthError(
        "invalid_value",
        `The model's chat template shows ${between.length - 1} of ${images.length} images: ` +
          "put them into messages of the user.",
        { param: "messages" },
      );
    }
    const text = between.map((words, i) => words + (images[i]?.text ?? "")).join("");
    const promptTokens = Int32Array.from(this.#tokenizer.encode(text));
    const spans = images.length === 0 ? [] : this.#findSpans(promptTokens, images);
    const grids = spans.flatMap(({ start, image: { grid }, firstRow }): GridSpan[] =>
      grid === undefined || firstRow > 0 ? [] : [{ start, grid }]
    );
    return {
      text,
      promptTokens,
      media: spans.map(({ start, end, image, firstRow }): MediaSpan => ({
        start,
        end,
        // An image may have several runs of tokens, each with its own rows.
        key: `${image.key}+${firstRow}`,
        source: image.source,
        firstRow,
      })),
      sectionPositions: grids.length === 0 ? undefined : mropePositions(promptTokens.length, grids),
    };
  }

  /** Finds the runs of image tokens; each belongs to one image. */
  #findSpans(tokens: Int32Array, images: readonly PromptImage[]) {
    const spans: { start: number; end: number; image: PromptImage; firstRow: number }[] = [];
    let token = 0;
    for (const image of images) {
      const numRows = this.numRows(image);
      for (let row = 0; row < numRows; row++, token++) {
        const next = tokens.indexOf(this.#imageTokenId, token);
        if (next < 0) throw new Error(`The prompt has fewer image tokens than images take.`);
        const last = spans.at(-1);
        if (last !== undefined && row > 0 && next === last.end) last.end++;
        else spans.push({ start: next, end: next + 1, image, firstRow: row });
        token = next;
      }
    }
    if (tokens.includes(this.#imageTokenId, token)) {
      throw new Error("The prompt has more image tokens than images take.");
    }
    return spans;
  }

  #toContent({ content }: ChatMessage): TemplateMessage["content"] {
    const parts: readonly MessagePart[] = typeof content === "string"
      ? [{ type: "text", text: content }]
      : content;
    const hasImages = parts.some(({ type }) => type === "image");
    if (this.#takes.parts && (hasImages || !this.#takes.strings)) {
      return parts.map((part) => part.type === "text" ? { ...part } : { type: "image" });
    }
    const texts = parts.map((part) => part.type === "text" ? part.text : this.#placeholder);
    return texts.join("\n");
  }

  /** @throws {HearthError} when a text contains the image placeholder. */
  #requirePlain({ content }: ChatMessage, index: number): void {
    const texts = typeof content === "string"
      ? [content]
      : content.flatMap((part) => part.type === "text" ? part.text : []);
    const token = [this.#placeholder, this.#imageToken].find((token) =>
      texts.some((text) => text.includes(token))
    );
    if (token === undefined) return;
    const param = `messages[${index}].content`;
    throw new HearthError(
      "invalid_value",
      `${param}: the text holds "${token}", which stands for an image in this model's prompts.`,
      { param },
    );
  }

  #probeTemplate(): { readonly parts: boolean; readonly strings: boolean } {
    const shows = (content: TemplateMessage["content"], wanted: readonly string[]) => {
      try {
        const rendered = this.#template.render([{ role: "user", content }]);
        return wanted.every((each) => rendered.split(each).length === 2);
      } catch (error) {
        if (error instanceof HearthError) return false;
        throw new StartupError((error as Error).message, { cause: error });
      }
    };
    const both = [this.#placeholder, PROBE];
    const parts = shows([{ type: "image" }, { type: "text", text: PROBE }], both);
    const strings = shows(PROBE, [PROBE]);
    if (parts || (strings && shows(both.join("\n"), both))) return { parts, strings };
    throw new StartupError(
      `The chat template does not support images: it renders no "${this.#placeholder}" of a message with one.`,
    );
  }
}

// Positions for a rotary embedding in sections (M-RoPE) as in Qwen2-VL (arXiv 2409.12191). Text advances in all three
// sections together. The tokens of an image share one time, and have a height and a width in its grid. Text after an
// image begins after the largest of its positions.

/** The tokens of an image: row by row of its grid, and frame by frame. */
interface GridSpan {
  /** Index of its first token in the prompt. */
  readonly start: number;
  /** Number of tokens along time, height and width. */
  readonly grid: readonly [number, number, number];
}

/**
 * The positions of a prompt's tokens.
 *
 * @param spans the images in it, in order.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { prompt: [time, height, width], offset } = mropePositions(6, [{ start: 1, grid: [1, 2, 2] }]);
 * assert.deepEqual([...time], [0, 1, 1, 1, 1, 3]);
 * assert.deepEqual([...height], [0, 1, 1, 2, 2, 3]);
 * assert.deepEqual([...width], [0, 1, 2, 1, 2, 3]);
 * assert.equal(offset, -2);
 * ```
 */
export function mropePositions(
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
