import { StartupError } from "../base/errors.ts";
import type { PairFrame, SpecialFrame, SpecialFrames } from "./special_frame.ts";

type Json = Readonly<Record<string, unknown>>;

/**
 * Tokenizer classes for which a flag that is false removes a token that `tokenizer.json` adds. For others the
 * post-processor stays as it is.
 */
const REMOVES_ENDS = /^(?:Code)?(?:Llama|Gemma|Cohere)/;

/**
 * Adds the begin and end tokens that `add_bos_token` and `add_eos_token` ask for, once each, and removes those that
 * they do not want.
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

/** The token that a text must begin or end with, or must not. */
interface End {
  readonly id: number;
  readonly isWanted: boolean;
}

interface Ends {
  readonly bos: End | undefined;
  readonly eos: End | undefined;
}

/** `undefined` if the frames need no change. */
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

/** Changes the frame of pairs. Llama's tokenizer treats a pair as two whole texts. */
function toPairEnds(frame: PairFrame, ends: Ends): PairFrame {
  const { before, after } = toEnds(frame, ends);
  return { ...frame, before, after };
}

function changeFirst(ids: readonly number[], { id, isWanted }: End): readonly number[] {
  const isThere = ids[0] === id;
  if (isThere === isWanted) return ids;
  return isWanted ? [id, ...ids] : ids.slice(1);
}
