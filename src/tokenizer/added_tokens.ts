/**
 * Tokens added to the vocabulary. They are found in a text before anything else.
 *
 * @module
 */
import { BudgetError } from "./regex/matcher.ts";
import type { ConfigReader } from "./config_reader.ts";
import type { Vocabulary } from "./vocabulary.ts";
import { trimEnd, trimStart } from "./normalizers.ts";
import { RUST_WORD } from "./regex/char_set.ts";

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether the token is special: decoding can leave it out. */
  readonly special: boolean;
  /** Whether the token is searched for in the normalized text, rather than in the original. */
  readonly isNormalized: boolean;
  /** Whether the token only matches if no word character, such as a letter or digit, touches it. */
  readonly isSingleWord: boolean;
  /** Whether white space before the token is removed. */
  readonly stripsLeft: boolean;
  /** Whether white space after the token is removed. */
  readonly stripsRight: boolean;
}

/**
 * Reads `added_tokens`. Like the Rust library, it ignores the ids in the file. A token that the vocabulary has keeps
 * its id there; the others get the next ids after the vocabulary, in the order of the file.
 */
export function readAddedTokens(
  readers: readonly ConfigReader[],
  vocabulary: Pick<Vocabulary, "numEntries" | "tokenToId">,
): AddedToken[] {
  const added = new Map<string, AddedToken>();
  let nextId = vocabulary.numEntries;
  for (const reader of readers) {
    const content = reader.string("content");
    if (content === "") continue;
    const special = reader.boolean("special", false);
    added.set(content, {
      id: vocabulary.tokenToId(content) ?? added.get(content)?.id ?? nextId++,
      ...{ content, special },
      isNormalized: reader.boolean("normalized", !special),
      isSingleWord: reader.boolean("single_word", false),
      stripsLeft: reader.boolean("lstrip", false),
      stripsRight: reader.boolean("rstrip", false),
    });
  }
  return [...added.values()];
}

/**
 * A search may take this many steps, and {@linkcode MAX_STEPS_PER_CHAR} more for each character of the text. So many
 * steps take a fraction of a second.
 */
const MAX_STEPS = 1_000_000;
const MAX_STEPS_PER_CHAR = 16;

interface Found {
  readonly token: AddedToken | undefined;
  /** Offset of the token's end. */
  readonly end: number;
  readonly numSteps: number;
}

/** A text without added tokens, or the id of an added token. */
export type Section = string | number;

/** Finds added tokens in texts: the leftmost one first, and of several that begin at the same place, the longest. */
export class AddedTokenFinder {
  readonly #root: Node = { token: undefined, children: new Map() };

  /** @param tokens each token, with the text to search for. */
  constructor(tokens: Iterable<readonly [spelling: string, token: AddedToken]>) {
    for (const [spelling, token] of tokens) {
      let node = this.#root;
      for (let at = 0; at < spelling.length; at++) {
        const unit = spelling.charCodeAt(at);
        let child = node.children.get(unit);
        if (child === undefined) {
          node.children.set(unit, child = { token: undefined, children: new Map() });
        }
        node = child;
      }
      if (node !== this.#root) node.token ??= token;
    }
  }

  /** Divides a text at the added tokens in it. */
  split(text: string): Section[] {
    if (this.#root.children.size === 0) return [text];
    const sections: Section[] = [];
    let last = 0;
    let numSteps = 0;
    for (let at = 0; at < text.length;) {
      const { token, end, ...found } = this.#longestAt(text, at);
      numSteps += found.numSteps;
      if (numSteps > MAX_STEPS + MAX_STEPS_PER_CHAR * text.length) {
        throw new BudgetError("too many added tokens begin alike");
      }
      if (token === undefined) {
        at++;
        continue;
      }
      const isApart = !token.isSingleWord || (!isWordBefore(text, at) && !isWordAt(text, end));
      if (isApart) {
        // The previous token may have stripped the white space in which this one is found. This one still counts,
        // unless it strips white space on its left, too, so that nothing of it remains.
        const start = token.stripsLeft ? last + trimEnd(text.slice(last, at)).length : at;
        const stop = token.stripsRight ? text.length - trimStart(text.slice(end)).length : end;
        sections.push(text.slice(last, start));
        if (start < stop) sections.push(token.id);
        last = stop;
      }
      at = end;
    }
    sections.push(text.slice(last));
    return sections.filter((section) => section !== "");
  }

  #longestAt(text: string, start: number): Found {
    let [token, end]: [AddedToken | undefined, number] = [undefined, start];
    let node: Node | undefined = this.#root;
    let at = start;
    for (; at < text.length; at++) {
      node = node.children.get(text.charCodeAt(at));
      if (node === undefined) break;
      if (node.token !== undefined) [token, end] = [node.token, at + 1];
    }
    return { token, end, numSteps: at - start };
  }
}

/** A node of a trie over UTF-16 units. */
interface Node {
  token: AddedToken | undefined;
  readonly children: Map<number, Node>;
}

function isWordAt(text: string, at: number): boolean {
  return at < text.length && RUST_WORD.has(text.codePointAt(at)!);
}

function isWordBefore(text: string, at: number): boolean {
  if (at === 0) return false;
  const isInPair = at > 1 && text.codePointAt(at - 2)! > 0xffff;
  return isWordAt(text, isInPair ? at - 2 : at - 1);
}
