/**
 * The hub's search for models.
 *
 * @module
 */
import { z } from "zod";
import { StartupError } from "../base/errors.ts";
import { askApi } from "./api.ts";
import { parseHubId } from "./cache.ts";
import type { HubSettings } from "./settings.ts";

const SearchAnswer = z.array(z.object({ id: z.string() }));
const MAX_FOUND = 5;
/** What is searched is only advice: nobody waits long for it. */
const IMPATIENT_MS = 5_000;

/**
 * Searches the hub.
 *
 * @param filter a tag that models have: `onnx`, or the library `transformers.js`.
 * @returns their ids; none if the hub does not answer.
 */
export async function searchHub(
  settings: HubSettings,
  { words, filter }: { readonly words: string; readonly filter: "onnx" | "transformers.js" },
): Promise<string[]> {
  const query = new URLSearchParams({ search: words, limit: `${MAX_FOUND}`, filter });
  const url = `${settings.endpoint}/api/models?${query}`;
  const stallMs = Math.min(settings.stallMs, IMPATIENT_MS);
  try {
    const answer = await askApi({ ...settings, stallMs }, { url, subject: "a search" });
    return (SearchAnswer.safeParse(answer).data ?? []).map(({ id }) => id)
      .filter((id) => parseHubId(id) !== undefined).slice(0, MAX_FOUND);
  } catch (error) {
    if (error instanceof StartupError) return [];
    throw error;
  }
}
