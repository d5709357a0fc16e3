// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
import assert from "node:assert/strict";
import { HOSTILE_HTML } from "../../fixtures/page/hostile_html.ts";
import { withAnswer } from "../../fixtures/page/page_answer.ts";
import { PAGE_TEST } from "../../fixtures/page/page_visit.ts";

/** Harmful answers that a model might write. Each of the scripts would set `globalThis.harmed`. */
const HOSTILE = [
  `<img src=x onerror="globalThis.harmed=1">`,
  `<script>globalThis.harmed=1</script>`,
  `<svg onload="globalThis.harmed=1"><a xlink:href="javascript:globalThis.harmed=1">a</a></svg>`,
  `[a link](javascript:globalThis.harmed=1) and [another](data:text/html,<script>alert(1)</script>)`,
  `[local](/shutdown) <a href="javascript:globalThis.harmed=1" onclick="globalThis.harmed=1">b</a>`,
  `![tracker](https://tracker.example/pixel.png "t") ![x](x" onerror="globalThis.harmed=1)`,
  `<iframe srcdoc="<script>parent.harmed=1</script>"></iframe><form action=/shutdown><button>go</button></form>`,
  `<style>body{display:none}</style><base href="https://evil.example/"><meta http-equiv=refresh content=0;url=/>`,
  '```html"><img src=x onerror=globalThis.harmed=1>\n<img src=x onerror=globalThis.harmed=1>\n```',
  `| a | b |\n|---|---|\n| <img src=x onerror="globalThis.harmed=1"> | <b onmouseover="globalThis.harmed=1">c</b> |`,
  `[good](https://example.org/page) \`<b>\``,
].join("\n\n");

Deno.test("page: an answer of a model is displayed and never executed", PAGE_TEST, async () => {
  await withAnswer({ text: HOSTILE }, async (tab) => {
    const seen = await tab.page.evaluate(() => {
      const answer = document.querySelector(".assistant .markdown")!;
      const links = [...answer.querySelectorAll("a")].map((link) => ({
        href: link.getAttribute("href"),
        rel: link.rel,
        target: link.target,
      }));
      return {
        harmed: (globalThis as { harmed?: number }).harmed,
        elements:
          answer.querySelectorAll("img, script, svg, iframe, form, style, base, meta").length,
        handlers: [...answer.querySelectorAll("*")].flatMap((element) =>
          element.getAttributeNames().filter((name) => name.startsWith("on"))
        ),
        links,
        text: answer.textContent,
      };
    });
    assert.equal(seen.harmed, undefined);
    assert.equal(seen.elements, 0);
    assert.deepEqual(seen.handlers, []);
    for (const { href, rel, target } of seen.links) {
      assert.ok(href === null || /^https?:\/\//.test(href), `${href}`);
      assert.equal(rel, "noopener noreferrer");
      assert.equal(target, "_blank");
    }
    assert.ok(seen.links.some(({ href }) => href === "https://example.org/page"));
    // The script is shown as text.
    assert.match(seen.text!, /<script>globalThis\.harmed=1<\/script>/);
    assert.deepEqual(tab.errors, []);
  });
});

/** All allowed elements of an answer, except formulas, whose elements are KaTeX's. */
const ELEMENTS = new Set(
  ("p br wbr hr em strong del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6 a table caption thead " +
    "tbody tfoot tr th td span input b i u s ins sub sup kbd samp var mark small q cite abbr div " +
    "center dl dt dd details summary figure figcaption button").split(" "),
);
const ATTRIBUTES = new Set(
  ("href rel target class align start type checked disabled colspan rowspan dir tabindex open title")
    .split(" "),
);

Deno.test(
  "page: none of 70 known attacks has an effect, at once or as a stream",
  PAGE_TEST,
  async () => {
    assert.equal(HOSTILE_HTML.length, 70);
    for (const size of [100_000, 11]) {
      await withAnswer({ text: HOSTILE_HTML.join("\n\n"), size }, async (tab) => {
        await tab.page.waitForSelector(".katex");
        const seen = await tab.page.evaluate(() => {
          const answer = document.querySelector(".assistant .markdown")!;
          const own = [...answer.querySelectorAll("*")].filter((each) => !each.closest(".katex"));
          const all = [...answer.querySelectorAll<HTMLElement>("*")];
          // Sends the events of a reader who points at elements and presses them.
          for (const each of all) {
            for (const type of ["pointerenter", "mouseover", "focus", "toggle"]) {
              each.dispatchEvent(new Event(type));
            }
            const isLink = each.closest("a") !== null;
            if (!isLink) each.dispatchEvent(new MouseEvent("click", { bubbles: true }));
          }
          return {
            elements: own.map(({ localName }) => localName),
            attributes: own.flatMap((each) => each.getAttributeNames()),
            handlers: all.flatMap((each) =>
              each.getAttributeNames().filter((name) => /^on/.test(name))
            ),
            addresses: all.flatMap((each) =>
              ["href", "src", "action", "xlink:href", "background", "formaction"].map((name) =>
                each.getAttribute(name)
              )
            ).filter((address) => address !== null),
            fixed: all.filter((each) => getComputedStyle(each).position === "fixed").length,
            ids: all.filter(({ id }) => id !== "").length,
          };
        });
        assert.deepEqual(seen.elements.filter((name) => !ELEMENTS.has(name)), []);
        assert.deepEqual(seen.attributes.filter((name) => !ATTRIBUTES.has(name)), []);
        assert.deepEqual(seen.handlers, []);
        assert.deepEqual(seen.addresses.filter((address) => !/^https?:\/\//.test(address)), []);
        assert.deepEqual([seen.fixed, seen.ids], [0, 0]);
        await new Promise((resolve) => setTimeout(resolve, 300));
        const harmed = await tab.page.evaluate(() => (globalThis as { harmed?: number }).harmed);
        assert.equal(harmed, undefined);
        assert.equal(new URL(tab.page.url()).pathname, "/");
        await tab.fill("Message", "still here");
        assert.deepEqual(tab.errors, []);
      });
    }
  },
);

Deno.test(
  "page: a line of a megabyte is shown and the page stays responsive",
  PAGE_TEST,
  async () => {
    const line = "ab<*_`[" + "x".repeat(1_000_000);
    await withAnswer({ text: line, size: 20_000 }, async (tab) => {
      const length = await tab.page.evaluate(() =>
        document.querySelector(".assistant .markdown")!.textContent!.length
      );
      assert.equal(length, line.length);
      await tab.fill("Message", "still here");
      assert.deepEqual(tab.errors, []);
    });
  },
);

Deno.test("page: deeply nested Markdown is shown literally", PAGE_TEST, async () => {
  for (const marks of ["> ", "- ", "1. ", "*", "_", "[", "> - ", "<div>", "<b>", "<details>"]) {
    const text = `${marks.repeat(3_000)}the end\n\nAfter it.`;
    await withAnswer({ text, size: 2_000 }, async (tab) => {
      const shown = await tab.page.$eval(".assistant .markdown", (answer) => answer.textContent!);
      assert.match(shown, /the end[^]*After it\./, marks);
      assert.deepEqual(tab.errors, [], marks);
    });
  }
});

Deno.test(
  "page: streamed Markdown equals Markdown that came at once",
  PAGE_TEST,
  async () => {
    const text = [
      "# Title\n\nA *paragraph* with `code`, **bold** and a [link](https://example.org).",
      "- one\n- two\n  - three\n\n1. first\n2. second",
      "| a | b |\n|---|--:|\n| 1 | 2 |",
      "```python\ndef f(x):\n    return x + 1\n```",
      "> quoted\n> on\n\nmath $x^2$ in it, and <kbd>a</kbd><br>HTML",
      "<details>\n<summary>s</summary>\n\nfolded\n\n</details>",
      "```\nno end",
    ].join("\n\n");
    const readHtml = async (size: number) => {
      let html = "";
      await withAnswer({ text, size }, async (tab) => {
        await tab.page.waitForSelector(".katex");
        await tab.page.waitForSelector("[class^=hljs-]");
        html = await tab.page.$eval(".assistant .markdown", (answer) => answer.innerHTML);
      });
      return html;
    };
    const whole = await readHtml(100_000);
    assert.match(whole, /hljs-keyword/);
    assert.match(whole, /<table>/);
    assert.equal(await readHtml(3), whole);
  },
);

Deno.test(
  "page: task lists, the numbers of lists and right-to-left text are rendered",
  PAGE_TEST,
  async () => {
    const text = [
      "3. third\n4. fourth",
      "- [x] done\n- [ ] open",
      "שלום עולם, זה טקסט.",
      "| a | b |\n|--:|---|\n| 1 | 2 |",
    ].join("\n\n");
    await withAnswer({ text }, async ({ page }) => {
      const seen = await page.$eval(".assistant .markdown", (root) => {
        const box = root.querySelector<HTMLInputElement>("li input")!;
        const hebrew = [...root.querySelectorAll("p")].find(({ textContent }) =>
          /שלום/.test(textContent ?? "")
        )!;
        return {
          start: root.querySelector("ol")!.start,
          box: { type: box.type, checked: box.checked, disabled: box.disabled },
          direction: getComputedStyle(hebrew).direction,
          align: root.querySelector("td")!.align,
        };
      });
      assert.deepEqual(seen, {
        start: 3,
        box: { type: "checkbox", checked: true, disabled: true },
        direction: "rtl",
        align: "right",
      });
    });
  },
);
