/**
 * `deno task page`: bundles the web page's modules into the one script that is served, `src/ui/script.js`.
 *
 * The bundle is committed, so that neither users nor `deno compile` need the page's packages or a bundler. Its first
 * line holds a digest of its sources, by which a test detects a stale bundle.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";

const FOLDER = new URL("../src/ui/", import.meta.url);

/** The bundle. */
export const SCRIPT = new URL("script.js", FOLDER);

/** The first line of a bundle of the current sources. */
export async function bundleHead(): Promise<string> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(FOLDER)) {
    if (/\.tsx?$|^deno\.json$/.test(name)) names.push(name);
  }
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    hash.update(name).update(await Deno.readFile(new URL(name, FOLDER)));
  }
  return `/* made by deno task page of ${hash.digest("hex")}; licences: THIRD_PARTY_NOTICES */\n`;
}

async function bundle(): Promise<string> {
  const folder = fileURLToPath(FOLDER);
  const output = await Deno.makeTempFile({ suffix: ".js" });
  try {
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["bundle", "--quiet", "--platform", "browser", "--minify", "-o", output, "main.tsx"],
      cwd: folder,
    }).spawn().status;
    if (code !== 0) Deno.exit(code);
    return await Deno.readTextFile(output);
  } finally {
    await Deno.remove(output);
  }
}

if (import.meta.main) await Deno.writeTextFile(SCRIPT, await bundleHead() + await bundle());
