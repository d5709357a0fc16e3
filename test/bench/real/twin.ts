/**
 * Twins of published models: folders with the same layout, sizes and precision, but random weights. They show what the
 * models cost on machines that cannot download them. Each is written once, to the system's folder for temporary files.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

/** Folder for twins and for the other programs' packages, which are kept between runs. */
export const CACHE = join(tmpdir(), "hearth-bench-real");

/** Folder of published models' tokenizers, next to the repository. */
export const TOKENIZERS = fileURLToPath(new URL("../../../../shared/tokenizers/", import.meta.url));

/** The content of a file: bytes unchanged, anything else as JSON. */
export type TwinFiles = Readonly<Record<string, Uint8Array | object>>;

/** A folder in {@linkcode CACHE}, which `build` writes if it does not exist. A change of `build` needs another name. */
export async function twinFolder(
  name: string,
  build: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(CACHE, "models", name);
  try {
    await Deno.stat(folder);
    return folder;
  } catch {
    // Does not exist: it is written below.
  }
  const unfinished = `${folder}.${Deno.pid}`;
  await Deno.mkdir(unfinished, { recursive: true });
  await build(unfinished);
  await Deno.rename(unfinished, folder);
  return folder;
}

/** Writes files into a folder. */
export async function writeTwinFiles(folder: string, files: TwinFiles): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const file = join(folder, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeFile(
      file,
      content instanceof Uint8Array ? content : new TextEncoder().encode(JSON.stringify(content)),
    );
  }
}

/** Copies a tokenizer's files. A template in a separate file is also put where transformers.js looks for it. */
export async function copyTokenizer(name: string, folder: string): Promise<void> {
  for await (const entry of Deno.readDir(join(TOKENIZERS, name))) {
    if (!entry.isFile || /SOURCE|golden|^config\.json/.test(entry.name)) continue;
    await Deno.copyFile(join(TOKENIZERS, name, entry.name), join(folder, entry.name));
  }
  const template = await Deno.readTextFile(join(folder, "chat_template.jinja")).catch(() =>
    undefined
  );
  if (template === undefined) return;
  const config = join(folder, "tokenizer_config.json");
  const fields = JSON.parse(await Deno.readTextFile(config));
  await Deno.writeTextFile(config, JSON.stringify({ ...fields, chat_template: template }));
}
