/**
 * Post-processors: the special tokens around a text, or around and between two texts.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import type { ConfigReader } from "./config_reader.ts";

/** Special tokens before and after a text. */
export interface SpecialFrame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** Special tokens around and between two texts. */
export interface PairFrame extends SpecialFrame {
  readonly between: readonly number[];
  /** Token types of the first text, of the second text, and of each token in `between`. */
  readonly types: {
    readonly first: number;
    readonly second: number;
    readonly between: readonly number[];
  };
}

export interface SpecialFrames {
  readonly single: SpecialFrame;
  readonly pair: PairFrame;
}

export const NO_FRAMES: SpecialFrames = {
  single: { before: [], after: [] },
  pair: { before: [], between: [], after: [], types: { first: 0, second: 0, between: [] } },
};

/**
 * Reads `post_processor`.
 *
 * @throws {StartupError} for an unknown one.
 */
export function readFrames(reader: ConfigReader): SpecialFrames {
  switch (reader.type) {
    case "ByteLevel":
      return NO_FRAMES;
    case "Sequence":
      return reader.parts("processors").map(readFrames).reduce(enclose, NO_FRAMES);
    case "BertProcessing": {
      const { start, end } = readEnds(reader);
      return {
        single: { before: [start], after: [end] },
        pair: {
          ...{ before: [start], between: [end], after: [end] },
          types: { first: 0, second: 1, between: [0] },
        },
      };
    }
    case "RobertaProcessing": {
      const { start, end } = readEnds(reader);
      return {
        single: { before: [start], after: [end] },
        pair: {
          ...{ before: [start], between: [end, end], after: [end] },
          types: { first: 0, second: 0, between: [0, 0] },
        },
      };
    }
    case "TemplateProcessing":
      return readTemplates(reader);
    default:
      throw reader.unknownType();
  }
}

function enclose(inner: SpecialFrames, outer: SpecialFrames): SpecialFrames {
  const isPlain = ({ pair: { before, between, after } }: SpecialFrames) =>
    before.length + between.length + after.length === 0;
  return {
    single: {
      before: [...outer.single.before, ...inner.single.before],
      after: [...inner.single.after, ...outer.single.after],
    },
    pair: isPlain(outer) ? inner.pair : outer.pair,
  };
}

/** Reads the ids of the first and last token of BERT's post-processor, from values such as `["[CLS]", 101]`. */
function readEnds(reader: ConfigReader): { start: number; end: number } {
  const [start, end] = ["cls", "sep"].map((name) => {
    const id = reader.array(name)[1];
    if (typeof id === "number") return id;
    throw new StartupError(`tokenizer.json: ${reader.path}.${name}: want a token and its id.`);
  });
  return { start: start!, end: end! };
}

/** An element of a template: a text, or special tokens. */
type Element = { readonly text: string; readonly type: number } | {
  readonly ids: readonly number[];
  readonly type: number;
};

function readTemplates(reader: ConfigReader): SpecialFrames {
  const special = reader.has("special_tokens") ? reader.part("special_tokens") : undefined;
  const readElements = (name: string) =>
    reader.parts(name).map((element): Element => {
      if (element.has("Sequence")) {
        const sequence = element.part("Sequence");
        return { text: sequence.string("id"), type: sequence.number("type_id", 0) };
      }
      const token = element.part("SpecialToken");
      const named = special?.part(token.string("id"));
      return {
        ids: (named?.array("ids") ?? []).map(Number),
        type: token.number("type_id", 0),
      };
    });
  return {
    single: toFrame(readElements("single")),
    pair: reader.has("pair") ? toPairFrame(readElements("pair")) : NO_FRAMES.pair,
  };
}

function toFrame(elements: readonly Element[]): SpecialFrame {
  const at = elements.findIndex((element) => "text" in element);
  return { before: listIds(elements.slice(0, at)), after: listIds(elements.slice(at + 1)) };
}

function toPairFrame(elements: readonly Element[]): PairFrame {
  const first = elements.findIndex((element) => "text" in element);
  const second = elements.findLastIndex((element) => "text" in element);
  const between = elements.slice(first + 1, second);
  return {
    before: listIds(elements.slice(0, first)),
    between: listIds(between),
    after: listIds(elements.slice(second + 1)),
    types: {
      first: elements[first]?.type ?? 0,
      second: elements[second]?.type ?? 0,
      between: between.flatMap(({ type, ...element }) =>
        "ids" in element ? element.ids.map(() => type) : []
      ),
    },
  };
}

function listIds(elements: readonly Element[]): number[] {
  return elements.flatMap((element) => "ids" in element ? [...element.ids] : []);
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Tokenizer classes in which `add_bos_token: false` and `add_eos_token: false` remove a token that `tokenizer.json`
 * adds. In other classes, false changes nothing.
 */
const REMOVES_ENDS = /^(?:Code)?(?:Llama|Gemma|Cohere)/;

/**
 * Applies `add_bos_token` and `add_eos_token`: adds the first or last token if it is missing, or removes it.
 */
export function withEnds(
  frames: SpecialFrames,
  config: Json,
  tokenToId: (token: string) => number | undefined,
): SpecialFrames {
  const bos = readEnd("bos", config, tokenToId);
  const eos = readEnd("eos", config, tokenToId);
  return {
    single: toEnds(frames.single, { bos, eos }),
    pair: toPairEnds(frames.pair, { bos, eos }),
  };
}

/** A token, and whether a text must begin (or end) with it or must not. */
interface End {
  readonly id: number;
  readonly isWanted: boolean;
}

interface Ends {
  readonly bos: End | undefined;
  readonly eos: End | undefined;
}

/** Reads what `config` says of the first or last token; `undefined` if the frames need no change. */
function readEnd(
  name: "bos" | "eos",
  config: Json,
  tokenToId: (token: string) => number | undefined,
): End | undefined {
  const isWanted = config[`add_${name}_token`] ?? undefined;
  if (isWanted === undefined) return undefined;
  if (typeof isWanted !== "boolean") {
    throw new StartupError(
      `tokenizer_config.json: add_${name}_token: want true or false, saw ${
        JSON.stringify(isWanted)
      }.`,
    );
  }
  if (!isWanted && !REMOVES_ENDS.test(String(config["tokenizer_class"]))) return undefined;
  const token = config[`${name}_token`] as string | { readonly content?: string } | null;
  const id = tokenToId((typeof token === "string" ? token : token?.content) ?? "");
  return id === undefined ? undefined : { id, isWanted };
}

function toEnds(frame: SpecialFrame, { bos, eos }: Ends): SpecialFrame {
  const { before, after } = frame;
  return {
    before: bos === undefined ? before : changeFirst(before, bos),
    after: eos === undefined ? after : changeFirst(after.toReversed(), eos).toReversed(),
  };
}

/** Changes the first and last token of pairs; the tokens between the texts stay. */
function toPairEnds(frame: PairFrame, ends: Ends): PairFrame {
  const { before, after } = toEnds(frame, ends);
  return { ...frame, before, after };
}

function changeFirst(ids: readonly number[], { id, isWanted }: End): readonly number[] {
  const isThere = ids[0] === id;
  if (isThere === isWanted) return ids;
  return isWanted ? [id, ...ids] : ids.slice(1);
}
