import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../../", import.meta.url);

/** The README and every page of `docs/`, by URL. */
async function readPages(): Promise<Map<string, string>> {
  const urls = [new URL("README.md", ROOT)];
  for await (const { name } of Deno.readDir(new URL("docs/", ROOT))) {
    if (name.endsWith(".md")) urls.push(new URL(`docs/${name}`, ROOT));
  }
  const texts = urls.map(async (url): Promise<[string, string]> => [
    url.href,
    await Deno.readTextFile(url),
  ]);
  return new Map(await Promise.all(texts));
}

/** The targets of links and images, without those of code. */
function* readLinks(page: string): Generator<string> {
  const prose = page.replaceAll(/^```[^]*?^```/gm, "").replaceAll(/`[^`\n]*`/g, "");
  for (const [, target] of prose.matchAll(/\]\(([^)\s]+)\)/g)) yield target!;
  for (const [, target] of prose.matchAll(/<img src="([^"]+)"/g)) yield target!;
}

/** GitHub's anchors of the headings in a page. */
function readAnchors(page: string): Set<string> {
  const headings = page.replaceAll(/^```[^]*?^```/gm, "").matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, text]) =>
      text!.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")
    ),
  );
}

Deno.test("README.md and docs/ link to files and headings that exist", async () => {
  const pages = await readPages();
  const broken: string[] = [];
  for (const [href, page] of pages) {
    for (const link of readLinks(page)) {
      const target = new URL(link, href);
      if (target.protocol !== "file:") continue;
      const anchor = target.hash.slice(1);
      target.hash = "";
      const exists = await Deno.stat(target).then(() => true, () => false);
      const linked = pages.get(target.href);
      const hasAnchor = anchor === "" || linked === undefined || readAnchors(linked).has(anchor);
      if (!exists || !hasAnchor) broken.push(`${fileURLToPath(href)}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
});

Deno.test("README.md has at most 14 kB", async () => {
  const { size } = await Deno.stat(new URL("README.md", ROOT));
  assert(size <= 14_000, `README.md has ${size} bytes`);
});
