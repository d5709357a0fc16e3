import { BpeModel } from "./bpe.ts";
import type { ConfigReader } from "./config_reader.ts";
import type { TokenModel } from "./token_model.ts";
import { UnigramModel } from "./unigram.ts";
import { WordLevelModel, WordPieceModel } from "./word_piece.ts";

/**
 * Reads `model`. Old files do not give its type.
 *
 * @param unkToken `unk_token` of `tokenizer_config.json`, for models that do not name one.
 * @throws {StartupError} for an unknown or damaged model.
 */
export function readTokenModel(reader: ConfigReader, unkToken: string | undefined): TokenModel {
  switch (reader.type || guessType(reader)) {
    case "BPE":
      return new BpeModel(reader);
    case "WordPiece":
      return new WordPieceModel(reader);
    case "WordLevel":
      return new WordLevelModel(reader, unkToken);
    case "Unigram":
      return new UnigramModel(reader);
    default:
      throw reader.unknownType();
  }
}

function guessType(reader: ConfigReader): string {
  if (reader.has("merges")) return "BPE";
  if (Array.isArray(reader.raw("vocab"))) return "Unigram";
  return reader.has("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}
