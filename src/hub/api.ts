/**
 * Questions to the hub's API, whose answers are small.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { askHub, HubError, readBounded } from "./answer.ts";
import type { HubSettings } from "./settings.ts";
import { z } from "zod";
import { parseHubId } from "./cache.ts";

/** The longest answer that is read: the list of a repository of 100,000 files. */
const MAX_BYTES = 32 * 2 ** 20;

/** A question to the API. */
interface ApiQuestion {
  readonly url: string;
  /** What is requested, for messages. */
  readonly subject: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request to the API; its answer must begin within a timeout.
 *
 * @returns the JSON; `undefined` where the answer is none.
 * @throws {HubError} as {@linkcode askHub}, and when there is no answer in time.
 * @throws {StartupError} for an answer that does not end.
 */
export async function askApi(settings: HubSettings, question: ApiQuestion): Promise<unknown> {
  const { url, subject, signal } = question;
  const timeout = AbortSignal.timeout(settings.stallMs);
  try {
    return await readJson(
      await askHub(settings, {
        url,
        subject,
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      }),
    );
  } catch (error) {
    if (!timeout.aborted) throw error;
    throw new HubError(
      `${settings.endpoint} does not answer for ${subject}: waited ${settings.stallMs / 1000} s. ` +
        "Check the network, or wait longer with HF_HUB_DOWNLOAD_TIMEOUT (seconds).",
    );
  }
}

async function readJson(response: Response): Promise<unknown> {
  const { text, isWhole } = await readBounded(response, MAX_BYTES).catch((cause) => {
    throw new HubError(`${response.url} broke off its answer. Try again.`, { cause });
  });
  if (!isWhole) {
    throw new StartupError(
      `${response.url} answers with more than ${
        MAX_BYTES / 2 ** 20
      } MiB, as no hub does. Check HF_ENDPOINT.`,
    );
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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
