/**
 * Grammars for a model's vocabulary.
 *
 * @module
 */
import { GrammarCompiler } from "../grammar/compiler.ts";
import type { TextTokenizer } from "./tokenizer.ts";

/** Compiles grammars for a model; its tokens are read when the first request needs one. */
export function createGrammars({ tokenizer, vocabSize, endTokenIds }: {
  readonly tokenizer: Pick<TextTokenizer, "tokenTexts" | "tokenOf" | "addedTokens">;
  readonly vocabSize: number;
  readonly endTokenIds: ReadonlySet<number>;
}): GrammarCompiler {
  const { addedTokens, tokenTexts, tokenOf } = tokenizer;
  return new GrammarCompiler(() => {
    const bytes: (Uint8Array | null)[] = Array(vocabSize);
    const read = (id: number) =>
      addedTokens.get(id)?.special || tokenOf(id) === undefined ? null : tokenTexts.bytesOf(id);
    return {
      vocabSize,
      endTokenIds,
      bytesOf: (id) => (bytes[id] ??= read(id)) ?? undefined,
      addedTokens: new Map([...addedTokens].map(([id, { content }]) => [content, id])),
    };
  });
}
