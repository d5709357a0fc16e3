/**
 * Paths of other servers' own APIs, which clients ask for when they take this one for such a server.
 *
 * @module
 */

/** Whose a path is, by what it begins with. */
const OWNERS: readonly (readonly [path: RegExp, owner: string])[] = [
  [/^\/(props|slots|completion|infill|embedding|lora-adapters)$/, "llama.cpp's own API"],
  [/^\/api\/v\d(\/|$)/, "LM Studio's own API"],
  [/^\/api(\/|$)/, "Ollama's own API"],
  [/^\/v1(alpha|beta)\d?(\/|$)/, "Google's API"],
  [/^\/openai\/deployments(\/|$)/, "Azure's API"],
  [/^\/(version|ping|server_info|get_model_info|is_sleeping)$/, "another server's own API"],
];

/**
 * What to do about a request for another server's API, in one sentence; `undefined` for any other path.
 *
 * @param origin of this server, as the client calls it.
 */
export function explainForeignPath(path: string, origin: string): string | undefined {
  const owner = OWNERS.find(([pattern]) => pattern.test(path))?.[1];
  if (owner === undefined) return undefined;
  return `This path belongs to ${owner}, which is not served here: have the client take this ` +
    `server for an OpenAI-compatible one, with the base address ${origin}/v1.`;
}
