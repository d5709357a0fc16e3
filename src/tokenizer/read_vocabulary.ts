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
  // Half the time of a list of keys, or of entries: there are 30,000 to 260,000.
  // deno-lint-ignore guard-for-in -- a file's objects inherit nothing that is listed
  for (const token in ids) vocabulary.set(token, ids[token]);
  return vocabulary;
}
