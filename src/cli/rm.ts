/**
 * `rm`: removes a model from the cache.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { formatBytes } from "../base/format_bytes.ts";
import { lockFolder, repositoryFolder } from "../hub/cache.ts";
import { scanModel } from "../hub/cache_scan.ts";
import { nameModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/settings.ts";
import { printLine } from "./print.ts";
import { findRunning } from "./running.ts";

/**
 * Removes all revisions of a model, after asking unless `yes`.
 *
 * @returns 0 when it is gone, 1 when the answer was no.
 * @throws {StartupError} when it is not in the cache, a running server uses it, or standard input is no terminal to ask
 * at.
 */
export async function rm(name: string, { yes }: { readonly yes: boolean }): Promise<number> {
  const model = await nameModel(name);
  if (!("hubId" in model)) {
    throw new StartupError(
      `${model.id} is a folder, not in the cache; rm only removes models of the cache: ${model.folder}`,
    );
  }
  if (model.hubId.revision !== "main") {
    throw new StartupError(`rm removes all revisions of a model: name it as ${model.id}.`);
  }
  const { cacheFolder } = readHubSettings();
  const { bytes } = await scanModel(cacheFolder, model.hubId);
  const folder = repositoryFolder(cacheFolder, model.hubId);
  if (bytes === 0) {
    throw new StartupError(`${model.id} is not in the cache: there is no ${folder}.`);
  }
  const server = (await findRunning()).find((each) => each.model === model.id);
  if (server !== undefined) {
    throw new StartupError(
      `${model.id} is being served at ${server.url}, by process ${server.pid}: stop that first.`,
    );
  }
  if (!yes && !ask(`Remove ${model.id} (${formatBytes(bytes)}) from ${cacheFolder}?`)) return 1;
  await Deno.remove(folder, { recursive: true });
  const locks = lockFolder(cacheFolder, model.hubId);
  await Deno.remove(locks, { recursive: true }).catch(() => {});
  printLine(`Removed ${model.id}: ${formatBytes(bytes)} are free again.`);
  return 0;
}

function ask(question: string): boolean {
  if (Deno.stdin.isTerminal()) return confirm(question);
  throw new StartupError(`${question} Standard input is not a terminal: confirm with --yes.`);
}
