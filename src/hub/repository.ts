/**
 * One revision of a model on the hub: its commit, and its files with sizes and checksums.
 *
 * @see https://huggingface.co/docs/hub/api
 * @module
 */
import { z } from "zod";
import { StartupError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import {
  askHub,
  cleanText,
  HubError,
  isPlainName,
  readBounded,
  type RetryOptions,
  withRetries,
} from "./hub_request.ts";
import { type HubId, type HubSettings, parseHubId, showHubId } from "./cache.ts";

export interface HubFile {
  /** Path within the repository, with forward slashes. */
  readonly path: string;
  readonly bytes: number;
  /** Checksum, which is also the name of the file's blob in the cache. */
  readonly digest: Digest;
}

/** One revision of a model. */
export interface Repository {
  readonly id: HubId;
  readonly commit: string;
  readonly files: ReadonlyMap<string, HubFile>;
}

const Sibling = z.object({
  rfilename: z.string(),
  size: z.int().nonnegative(),
  blobId: z.hex().length(40),
  lfs: z.object({ sha256: z.hex().length(64) }).nullish(),
});
/** Maximum length of a path that is accepted: the limit of macOS, which is lower than that of Linux. */
const MAX_PATH = 1024;

const ModelAnswer = z.object({ sha: z.hex().length(40), siblings: z.array(Sibling) });

/** Whether a file's path stays within the repository and has only printable characters. */
function isSound(path: string): boolean {
  return path.length <= MAX_PATH && isPlainName(path) && path !== "" &&
    !/^[/\\]|\\|:|(^|\/)\.{0,2}(\/|$)/.test(path);
}

/**
 * Asks the hub for a revision.
 *
 * @throws {HubError} with the hub's own reason, and with similar names if the model does not exist.
 */
export async function fetchRepository(
  settings: HubSettings,
  id: HubId,
  options: RetryOptions = {},
): Promise<Repository> {
  const { owner, name, revision } = id;
  const url = `${settings.endpoint}/api/models/${owner}/${name}/revision/` +
    `${encodeURIComponent(revision)}?blobs=true`;
  const subject = showHubId(id);
  const ask = async () => await askApi(settings, { url, subject, ...options });
  try {
    const answer = await withRetries(ask, options);
    return readRepository(id, answer, settings);
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    const { status } = error;
    const near = status === 401 || status === 404 ? await searchNear(settings, id) : [];
    if (near.length === 0) throw error;
    const message = `${error.message} Similar names: ${near.join(", ")}.`;
    throw new HubError(message, { status, cause: error });
  }
}

function readRepository(id: HubId, answer: unknown, { endpoint }: HubSettings): Repository {
  const read = ModelAnswer.safeParse(answer);
  if (!read.success) {
    throw new StartupError(
      `${endpoint} answered for ${showHubId(id)}, but not as a Hugging Face hub does: ` +
        `${cleanText(z.prettifyError(read.error))}. Check HF_ENDPOINT.`,
    );
  }
  const { sha } = read.data;
  const siblings = read.data.siblings.filter(({ rfilename }) => isSound(rfilename));
  const numOdd = read.data.siblings.length - siblings.length;
  if (numOdd > 0) {
    log.warn("files of the repository are left out because their names are unsafe", {
      model: showHubId(id),
      numFiles: numOdd,
    });
  }
  const files = siblings.map(({ rfilename: path, size: bytes, blobId, lfs }): HubFile => ({
    path,
    bytes,
    digest: lfs ? { kind: "sha256", hex: lfs.sha256 } : { kind: "git", hex: blobId },
  }));
  return { id, commit: sha, files: new Map(files.map((file) => [file.path, file])) };
}

/** Searches the hub for models with similar names and ONNX weights. Finds none if the hub does not answer. */
async function searchNear(settings: HubSettings, { owner, name }: HubId): Promise<string[]> {
  const words = name.replace(/[-_.]?(onnx|web|instruct|it|gguf)$/i, "");
  const found = await searchHub(settings, { words, filter: "onnx" });
  return found.filter((id) => id !== `${owner}/${name}`);
}

/** The expected checksum of a file. */
interface Digest {
  /** `git` is the sha1 of `blob <size>\0` and the bytes. */
  readonly kind: "sha256" | "git";
  /** The digest in lower-case hexadecimal. */
  readonly hex: string;
}

/** Maximum size of a response that is read: enough for a repository of 100,000 files. */
const MAX_BYTES = 32 * 2 ** 20;

/** A request to the hub's API. */
interface ApiQuestion {
  readonly url: string;
  /** The subject of the request in words, for messages. */
  readonly subject: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request to the API. The response must begin within a timeout.
 *
 * @returns the JSON; `undefined` if the response is not JSON.
 * @throws {HubError} as {@linkcode askHub} does, and when there is no response in time.
 * @throws {StartupError} for a response that is too long.
 */
async function askApi(settings: HubSettings, question: ApiQuestion): Promise<unknown> {
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
    throw new HubError(`The response from ${response.url} broke off. Try again.`, { cause });
  });
  if (!isWhole) {
    throw new StartupError(
      `${response.url} answered with more than ${MAX_BYTES / 2 ** 20} MiB, ` +
        "which no Hugging Face hub does. Check HF_ENDPOINT.",
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
/** Timeout of searches: their results are only advice, so nobody should wait long for them. */
const IMPATIENT_MS = 5_000;

/**
 * Searches the hub.
 *
 * @param filter a tag of the models to find: `onnx`, or the library `transformers.js`.
 * @returns the ids of the models; none if the hub does not answer.
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
