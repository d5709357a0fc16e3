// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** Formatting of answers: formulas, HTML that formats text, and colours of code. */
import assert from "node:assert/strict";
import { withAnswer } from "../../fixtures/page/page_answer.ts";
import { PAGE_TEST } from "../../fixtures/page/page_visit.ts";

Deno.test({
  ...PAGE_TEST,
  name: "page: formulas are typeset, and text that only looks like a formula stays unchanged",
  fn: async () => {
    const text = [
      "\\(a_1 * b_1 * c\\) and $x_1 + x_2$ cost $5 and $10.",
      "\\[\n\\frac{1}{2}\n= 3\n- 4\n\\]",
      "$$\nE = mc^2\n\n+ 1\n$$",
      "\\begin{align}\na &= b \\\\\n&= c\n\\end{align}",
      "```math\n\\sqrt{2}\n```",
      "`$no$` and $\\notacommand{x}$ and $\\href{javascript:alert(1)}{x}$",
    ].join("\n\n");
    for (const size of [100_000, 3]) {
      await withAnswer({ text, size }, async ({ page, errors }) => {
        await page.waitForFunction(() => document.querySelectorAll(".katex").length >= 7);
        const seen = await page.$eval(".assistant .markdown", (root) => ({
          latex: [...root.querySelectorAll("annotation")].map(({ textContent }) =>
            textContent!.trim()
          ),
          displayed: root.querySelectorAll(".katex-display").length,
          code: [...root.querySelectorAll("code")].map(({ textContent }) => textContent),
          links: root.querySelectorAll("[href]").length,
          cost: root.querySelector("p")!.textContent!.includes("cost $5 and $10."),
          headings: root.querySelectorAll("h1, h2, ul").length,
          // With its fonts, which the page's policy must allow.
          font: document.fonts.check("16px KaTeX_Main"),
        }));
        assert.deepEqual(seen, {
          latex: [
            "a_1 * b_1 * c",
            "x_1 + x_2",
            "\\frac{1}{2}\n= 3\n- 4",
            "E = mc^2\n\n+ 1",
            "\\begin{align}\na &= b \\\\\n&= c\n\\end{align}",
            "\\sqrt{2}",
            "\\href{javascript:alert(1)}{x}",
          ],
          displayed: 4,
          code: ["$no$", "$\\notacommand{x}$"],
          links: 0,
          cost: true,
          headings: 0,
          font: true,
        });
        assert.deepEqual(errors, []);
      });
    }
  },
});

Deno.test({
  ...PAGE_TEST,
  name:
    "page: HTML tags that format text are rendered, without styles, ids, colours and event handlers",
  fn: async () => {
    const text = [
      "one<br>two<BR/>three, H<sub>2</sub>O, x<sup>2</sup>, <kbd>Ctrl</kbd>, <mark>m</mark>, <u>u</u>",
      '<div align="center" style="position:fixed" onclick="x()">\n<h3 id="top">Title</h3>\nText &amp; more &lt;b&gt;\n</div>',
      '<table><tr><td colspan="2" bgcolor="red">wide</td></tr><tr><td>a</td><td>b</td></tr></table>',
      '<a href="https://example.org/a?b=1&c=2" onclick="x()">link</a> <a href="/shutdown">none</a>',
      "| a | b |\n|---|---|\n| one<br>two | <b>c</b> |",
      "<details>\n<summary>More</summary>\n\n- in\n- it\n\n</details>\n\nAfter.",
      "a < b and <T> and List<String> and <thinking> are text",
    ].join("\n\n");
    for (const size of [100_000, 5]) {
      await withAnswer({ text, size }, async ({ page, errors }) => {
        const seen = await page.$eval(".assistant .markdown", (root) => ({
          breaks: root.querySelectorAll("br").length,
          formats: [...root.querySelectorAll("sub, sup, kbd, mark, u, b, h3")].map((each) =>
            `${each.localName}:${each.textContent}`
          ),
          attributes: [...root.querySelectorAll("*")].flatMap((each) =>
            each.getAttributeNames().filter((name) => /^(on|style|id|bgcolor)/.test(name))
          ),
          entities: root.querySelector("div:not(.table)")!.textContent!.includes("Text & more <b>"),
          wide: root.querySelector<HTMLTableCellElement>("td[colspan]")!.colSpan,
          links: [...root.querySelectorAll("a")].map((each) => each.getAttribute("href")),
          folded: [...root.querySelectorAll("details li")].map(({ textContent }) => textContent),
          isOpen: root.querySelector("details")!.open,
          after: root.lastElementChild!.textContent,
        }));
        assert.deepEqual(seen, {
          breaks: 3,
          formats: ["sub:2", "sup:2", "kbd:Ctrl", "mark:m", "u:u", "h3:Title", "b:c"],
          attributes: [],
          entities: true,
          wide: 2,
          links: ["https://example.org/a?b=1&c=2", null],
          folded: ["in", "it"],
          isOpen: false,
          after: "a < b and <T> and List<String> and <thinking> are text",
        });
        assert.deepEqual(errors, []);
      });
    }
  },
});

Deno.test({
  ...PAGE_TEST,
  name: "page: code is coloured in many languages",
  fn: async () => {
    const examples = {
      kotlin: "fun main() { val x = 1 }",
      php: "<?php echo 'a'; function f() {}",
      ruby: "def f\n  puts 'a'\nend",
      dockerfile: "FROM debian\nRUN echo a",
      docker: "FROM debian",
      swift: "let x = 1",
      scala: "val x = 1",
      lua: "local x = 1",
      perl: "my $x = 1;",
      r: "f <- function(x) 1",
      powershell: "if ($x) { Get-Item 1 }",
      toml: "a = 1",
      ini: "[a]\nb = 1",
      makefile: "a: b\n\techo 1",
      haskell: "main = let x = 1 in x",
      elixir: "def f, do: 1",
      dart: "var x = 1;",
      julia: "function f() 1 end",
      graphql: "query { a(b: 1) }",
      nginx: "server { listen 80; }",
      sh: "if true; then echo 1; fi",
      js: "const x = 1;",
      tsx: "const x: number = 1;",
      py: "def f(): return 1",
      "c++": "int x = 1;",
      "objective-c": "int x = 1;",
      cs: "int x = 1;",
      scss: "$a: 1px;",
      vue: "<a b='1'></a>",
      jsonc: '{ "a": 1 }',
    };
    const text = Object.entries(examples).map(([language, code]) =>
      `\`\`\`${language}\n${code}\n\`\`\``
    ).join("\n\n");
    await withAnswer({ text, size: 100 }, async ({ page, errors }) => {
      await page.waitForSelector(".code [class^=hljs-]");
      const plain = await page.$$eval(
        ".code",
        (all) =>
          all.filter((each) => each.querySelector("[class^=hljs-]") === null)
            .map((each) => each.querySelector("figcaption")!.firstChild!.textContent),
      );
      assert.deepEqual(plain, []);
      const texts = await page.$$eval(".code pre", (all) => all.map((each) => each.textContent));
      assert.deepEqual(texts, Object.values(examples));
      assert.deepEqual(errors, []);
    });
  },
});
