/**
 * `deno task page`: bundles the web page into the files in `src/ui/built/`, which the server sends: the page's script,
 * a script for each part that is loaded on demand (`src/ui/lazy/`), and the style sheet of formulas.
 *
 * The bundles are committed, so that neither users nor `deno compile` need the page's packages or a bundler. The first
 * line of the page's script contains a digest of all sources, by which a test detects a stale bundle.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";

const FOLDER = new URL("../src/ui/", import.meta.url);

/** The folder of the bundles. */
export const BUILT = new URL("built/", FOLDER);

/** The bundle that the page loads first. */
export const SCRIPT = new URL("script.js", BUILT);

/** Makes the first line of the page's script from the current sources. */
export async function makeHead(): Promise<string> {
  const names = (await listFiles("")).filter((name) => /\.tsx?$|^deno\.json$/.test(name));
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    hash.update(name).update(await Deno.readFile(new URL(name, FOLDER)));
  }
  return `/* made by deno task page of ${hash.digest("hex")}; licences: THIRD_PARTY_NOTICES */\n`;
}

/** Lists the paths of all files below a subfolder of the page's folder. */
async function listFiles(folder: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, FOLDER))) {
    if (isDirectory) paths.push(...await listFiles(`${folder}${name}/`));
    else paths.push(folder + name);
  }
  return paths;
}

async function bundle(source: string): Promise<string> {
  const output = await Deno.makeTempFile({ suffix: ".js" });
  try {
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["bundle", "--quiet", "--platform", "browser", "--minify", "-o", output, source],
      cwd: fileURLToPath(FOLDER),
    }).spawn().status;
    if (code !== 0) Deno.exit(code);
    return await Deno.readTextFile(output);
  } finally {
    await Deno.remove(output);
  }
}

/** Embeds the fonts in KaTeX's style sheet: the page works offline, and its security policy allows no other source. */
async function bundleFormulaStyle(): Promise<string> {
  const style = new URL(import.meta.resolve("katex/dist/katex.min.css"));
  const css = await Deno.readTextFile(style);
  const fonts = [...css.matchAll(/url\((fonts\/[\w-]+\.woff2)\) format\("woff2"\)[^;}]*/g)];
  const parts = await Promise.all(fonts.map(async ([whole, path]) => {
    const bytes = await Deno.readFile(new URL(path!, style));
    const url = `url(data:font/woff2;base64,${bytes.toBase64()}) format("woff2")`;
    return [whole, url] as const;
  }));
  return parts.reduce((text, [whole, url]) => text.replace(whole, () => url), css);
}

if (import.meta.main) {
  const head = await makeHead();
  await Deno.writeTextFile(SCRIPT, head + await bundle("main.tsx"));
  for (const name of (await listFiles("lazy/")).sort()) {
    const built = name.replace(/^lazy\/(.*)\.ts$/, "$1.js");
    await Deno.writeTextFile(new URL(built, BUILT), await bundle(name));
  }
  await Deno.writeTextFile(new URL("formulas.css", BUILT), await bundleFormulaStyle());
}
