/**
 * The API keys of a server, from its flags and a file.
 *
 * @module
 */
import type { ApiKey } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";

/**
 * All accepted keys. A line of the file is `<label>:<key>`; empty lines and lines that begin with `#` are ignored.
 *
 * @throws {StartupError} when the file cannot be read, or a key cannot be sent in a header.
 */
export function readApiKeys(
  { apiKey, apiKeyFile }: {
    readonly apiKey?: string | undefined;
    readonly apiKeyFile?: string | undefined;
  },
): ApiKey[] {
  const keys = apiKeyFile === undefined ? [] : readFile(apiKeyFile);
  if (apiKey !== undefined) {
    keys.unshift({ label: "default", key: requireKey(apiKey, "--api-key") });
  }
  return keys;
}

function readFile(path: string): ApiKey[] {
  const keys: ApiKey[] = [];
  for (const [index, line] of readLines(path).entries()) {
    if (line === "" || line.startsWith("#")) continue;
    const where = `${path}, line ${index + 1}`;
    const colon = line.indexOf(":");
    const label = line.slice(0, colon).trim();
    if (colon < 0 || label === "" || label.length > 64) {
      throw new StartupError(`${where}: want <label>:<key>, with a label of 1 to 64 characters.`);
    }
    keys.push({ label, key: requireKey(line.slice(colon + 1).trim(), where) });
  }
  // An empty key file must not turn authentication off.
  if (keys.length === 0) throw new StartupError(`${path} holds no API key.`);
  return keys;
}

function readLines(path: string): string[] {
  try {
    return Deno.readTextFileSync(path).split("\n").map((line) => line.trim());
  } catch (error) {
    // The system's message names the path.
    throw new StartupError(`The keys cannot be read: ${(error as Error).message}`);
  }
}

/** Headers hold visible ASCII; clients encode anything else differently. */
function requireKey(key: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new StartupError(
    `${where}: an API key is made of visible ASCII characters, without spaces.`,
  );
}
