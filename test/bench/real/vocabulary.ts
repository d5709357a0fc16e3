/**
 * Qwen3's tokenizer, resized to the vocabulary of another model: a twin has that model's number of tokens, without its
 * tokenizer.
 *
 * @module
 */
import { join } from "node:path";
import { copyTokenizer, TOKENIZERS } from "./twin.ts";

/** Ids of the tokens that end a chat message and that pad. */
export interface EndTokens {
  readonly eos: number;
  readonly pad: number;
}

/** A tokenizer of `tokens.length` tokens. */
export interface Vocabulary extends EndTokens {
  /** By id. */
  readonly tokens: readonly string[];
  /** Ids of the special tokens. */
  readonly added: ReadonlySet<number>;
  /** Ids of tokens that no text contains. */
  readonly unused: ReadonlySet<number>;
  /** Two tokens each, separated by a space. */
  readonly merges: readonly string[];
}

interface AddedToken {
  readonly id: number;
  readonly content: string;
}

type Tokenizer = Awaited<ReturnType<typeof readQwen3>>;

const EOS = "<|im_end|>";
const PAD = "<|endoftext|>";

async function readQwen3() {
  const json = await Deno.readTextFile(join(TOKENIZERS, "qwen3", "tokenizer.json"));
  const { model, added_tokens, ...rest } = JSON.parse(json);
  const merges: string[] = model.merges.map((pair: string | string[]) =>
    typeof pair === "string" ? pair : pair.join(" ")
  );
  return { model, merges, added: added_tokens as readonly AddedToken[], rest };
}

/** Reads the vocabulary, resized to `size` tokens. */
export async function readVocabulary(size: number): Promise<Vocabulary> {
  return resize(await readQwen3(), size);
}

/**
 * Resizes the vocabulary. If it gets smaller, its last merges are dropped, and the special tokens come last. If it gets
 * larger, unused tokens are added.
 */
function resize({ model, merges, added }: Tokenizer, size: number): Vocabulary {
  const numPlain = Math.min(Object.keys(model.vocab).length, size - added.length);
  const tokens: string[] = [];
  for (const [token, id] of Object.entries<number>(model.vocab)) {
    if (id < numPlain) tokens[id] = token;
  }
  const firstAdded = tokens.length;
  tokens.push(...added.map(({ content }) => content));
  const firstUnused = tokens.length;
  for (let id = firstUnused; id < size; id++) tokens.push(`[PAD${id}]`);
  const range = (first: number, end: number) =>
    new Set(Array.from({ length: end - first }, (_, i) => first + i));
  // Tokens are numbered in the order of their merges, after the bytes.
  const numBytes = Object.keys(model.vocab).length - merges.length;
  return {
    tokens,
    eos: tokens.indexOf(EOS),
    pad: tokens.indexOf(PAD),
    added: range(firstAdded, firstUnused),
    unused: range(firstUnused, size),
    merges: merges.slice(0, firstAdded - numBytes),
  };
}

/** Writes a vocabulary of `size` tokens as a folder's tokenizer. */
export async function writeTokenizer(size: number, folder: string): Promise<EndTokens> {
  await copyTokenizer("qwen3", folder);
  const tokenizer = await readQwen3();
  const { model, added: addedTokens, rest } = tokenizer;
  const { tokens, added, merges, eos, pad } = resize(tokenizer, size);
  const findId = (content: string) => tokens.indexOf(content);
  const vocab = Object.fromEntries(
    tokens.flatMap((token, id) => added.has(id) ? [] : [[token, id]]),
  );
  const configPath = join(folder, "tokenizer_config.json");
  const config = JSON.parse(await Deno.readTextFile(configPath));
  const written = {
    "tokenizer.json": {
      ...rest,
      added_tokens: addedTokens.map((token) => ({ ...token, id: findId(token.content) })),
      model: { ...model, vocab, merges },
    },
    "tokenizer_config.json": {
      ...config,
      added_tokens_decoder: Object.fromEntries(
        Object.values<AddedToken>(config.added_tokens_decoder)
          .map((token) => [findId(token.content), token]),
      ),
    },
    "added_tokens.json": Object.fromEntries([...added].map((id) => [tokens[id], id])),
  };
  for (const [name, content] of Object.entries(written)) {
    await Deno.writeTextFile(join(folder, name), JSON.stringify(content));
  }
  return { eos, pad };
}
