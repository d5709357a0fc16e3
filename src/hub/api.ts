/**
 * Questions to the hub's API, whose answers are small.
 *
 * @module
 */
import { askHub, HubError } from "./answer.ts";
import type { HubSettings } from "./settings.ts";

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
  const text = await response.text().catch((cause) => {
    throw new HubError(`${response.url} broke off its answer. Try again.`, { cause });
  });
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
