/**
 * One revision of a model on the hub: its commit, and its files with sizes and checksums.
 *
 * @see https://huggingface.co/docs/hub/api
 * @module
 */
import { z } from "zod";
import { StartupError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { cleanText, HubError, isPlainName } from "./answer.ts";
import { askApi, searchHub } from "./api.ts";
import { type HubId, showHubId } from "./cache.ts";
import { type RetryOptions, withRetries } from "./retry.ts";
import type { HubSettings } from "./settings.ts";

/** A file of a repository. */
export interface HubFile {
  /** Below the repository, with forward slashes. */
  readonly path: string;
  readonly bytes: number;
  /** Also the name of its blob in the cache. */
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
/** The longest path that operating systems take. */
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
 * @throws {HubError} with the hub's own reason, and similar names if the model does not exist.
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
    const message = `${error.message} Near names: ${near.join(", ")}.`;
    throw new HubError(message, { status, cause: error });
  }
}

function readRepository(id: HubId, answer: unknown, { endpoint }: HubSettings): Repository {
  const read = ModelAnswer.safeParse(answer);
  if (!read.success) {
    throw new StartupError(
      `${endpoint} answers for ${showHubId(id)}, but not as a Hugging Face hub does: ` +
        `${cleanText(z.prettifyError(read.error))}. Check HF_ENDPOINT.`,
    );
  }
  const { sha } = read.data;
  const siblings = read.data.siblings.filter(({ rfilename }) => isSound(rfilename));
  const numOdd = read.data.siblings.length - siblings.length;
  if (numOdd > 0) {
    log.warn("files of the repository are left out for their names", {
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

/** Models on the hub with a similar name and ONNX weights; empty if the hub does not answer. */
async function searchNear(settings: HubSettings, { owner, name }: HubId): Promise<string[]> {
  const words = name.replace(/[-_.]?(onnx|web|instruct|it|gguf)$/i, "");
  const found = await searchHub(settings, { words, filter: "onnx" });
  return found.filter((id) => id !== `${owner}/${name}`);
}

/** The expected checksum of a file. */
export interface Digest {
  /** `git`: sha1 over `blob <size>\0` and the bytes. */
  readonly kind: "sha256" | "git";
  /** Lower case. */
  readonly hex: string;
}
