import type { ConfigReader } from "./config_reader.ts";
import { Vocabulary } from "./vocabulary.ts";

/**
 * Reads `vocab`, an object of ids by token.
 *
 * @throws {StartupError} when it is not an object.
 */
export function readVocabulary(reader: ConfigReader): Vocabulary {
  reader.part("vocab");
  const vocabulary = new Vocabulary();
  const ids = reader.raw("vocab") as Readonly<Record<string, unknown>>;
  for (const token of Object.keys(ids)) vocabulary.set(token, ids[token]);
  return vocabulary;
}
