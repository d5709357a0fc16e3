import assert from "node:assert/strict";
import { keepFormatting, measureNesting } from "../../../src/ui/chat/answer_html.ts";

Deno.test("keepFormatting() keeps formatting tags, and only safe links and cell spans of their attributes", () => {
  const cases = [
    ["a<br>b<BR />c<br/>d", "a<br>b<br>c<br>d"],
    ['<b onclick="x">b</B>', "<b>b</b>"],
    ['<div style="x"\nclass=y>d</div>', "<div>d</div>"],
    ["<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"],
    ["a < b > c & d &amp; &lt; &#39; &x", "a &lt; b &gt; c &amp; d &amp; &lt; &#39; &amp;x"],
    ['<td COLSPAN="2" rowspan=3 x=y>', '<td colspan="2" rowspan="3">'],
    ['<a href="https://a.example/?b=1&c">', '<a href="https://a.example/?b=1&amp;c">'],
    ["<a href='mailto:a@b.example'>", '<a href="mailto:a@b.example">'],
    ['<a href="javascript:x">', "<a>"],
    ['<a data-href="https://a.example">', "<a>"],
    ["<b", "&lt;b"],
    ["<b <i>x", "&lt;b <i>x"],
    ["<!-- note -->", "&lt;!-- note --&gt;"],
  ] as const;
  for (const [html, wanted] of cases) assert.equal(keepFormatting(html), wanted, html);
});

Deno.test("measureNesting() counts elements that HTML does not close automatically", () => {
  assert.equal(measureNesting("<b><i>x</i></b>"), 2);
  assert.equal(measureNesting("<b>x</b>".repeat(100)), 1);
  assert.equal(measureNesting("<li><br>".repeat(100)), 0);
  assert.equal(measureNesting("<div>".repeat(3000)), 3000);
  assert.equal(measureNesting("<script><T>"), 0);
});
