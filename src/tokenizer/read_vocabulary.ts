import type { ConfigReader } from "./config_reader.ts";
import { Vocabulary } from "./vocabulary.ts";

/** Reads `vocab` where it is an object of ids by token. @throws {StartupError} when it is not. */
export function readVocabulary(reader: ConfigReader): Vocabulary {
  reader.part("vocab");
  const vocabulary = new Vocabulary();
  const all = Object.entries(reader.raw("vocab") as Readonly<Record<string, unknown>>);
  for (const [token, id] of all) vocabulary.set(token, id);
  return vocabulary;
}
