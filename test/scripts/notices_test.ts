import assert from "node:assert/strict";
import { listPackages, NOTICES } from "../../scripts/notices.ts";

const LOCK = new URL("../../deno.lock", import.meta.url);

Deno.test("THIRD_PARTY_NOTICES contains the packages of the lock file, each with a text (deno task notices)", () => {
  const text = Deno.readTextFileSync(NOTICES);
  const packages = listPackages(JSON.parse(Deno.readTextFileSync(LOCK)));
  const sections = new Map(
    text.split(/^={80}\n(?=\S.*\n={80}$)/m).slice(1).map((section) => {
      const [title = "", , ...rest] = section.split("\n");
      return [title.replace(/ \(.*/, ""), rest.join("\n").trim()];
    }),
  );
  for (const id of packages) {
    const at = id.indexOf("@", 1);
    const title = `${id.slice(0, at)} ${id.slice(at + 1).replace(/_.*$/, "")}`;
    assert.ok((sections.get(title) ?? "").length > 300, `${title}: run deno task notices`);
  }
  assert.match(text, /codec-parser .* \(LGPL-3\.0-or-later\)/);
  assert.match(text, /It contains eSpeak NG, .*GPL-3/);
  assert.match(text, /GNU GENERAL PUBLIC LICENSE\s+Version 3/);
});
