/**
 * A separate cache for a test, and its content.
 *
 * @module
 */
import { join, relative } from "node:path";
import { type HubSettings, readHubSettings } from "../../src/hub/cache.ts";

/** A temporary cache folder, removed when disposed. */
export class ScratchCache implements AsyncDisposable {
  readonly folder = Deno.makeTempDirSync({ prefix: "hearth-cache-" });

  /** Makes the settings of a process with this cache. */
  settings(environment: Readonly<Record<string, string>> = {}): HubSettings {
    return readHubSettings({
      HF_HUB_CACHE: this.folder,
      HF_HOME: this.folder,
      ...environment,
    });
  }

  /** The files in this part of a repository's folder, with their content; links are followed. */
  files(id: string, part: "blobs" | "snapshots" | "refs"): Map<string, Uint8Array<ArrayBuffer>> {
    const root = join(this.folder, `models--${id.replace("/", "--")}`, part);
    return new Map(walk(root).map((path) => [relative(root, path), Deno.readFileSync(path)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

function walk(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory ? walk(path) : [path];
    });
  } catch {
    return [];
  }
}
