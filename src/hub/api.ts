/**
 * Questions to the hub's API, whose answers are small.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { askHub, HubError } from "./answer.ts";
import { readBounded } from "./bounded_text.ts";
import type { HubSettings } from "./settings.ts";

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
