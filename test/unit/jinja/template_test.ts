import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { JsonText, Template } from "../../../src/jinja/template.ts";
import { TemplateError } from "../../../src/jinja/python/values.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";

interface Snippet {
  readonly template: string;
  readonly rendered?: string;
  readonly refused?: unknown;
}

interface Snippets {
  readonly variables: Record<string, unknown>;
  readonly snippets: readonly Snippet[];
}

/** The output of a template, or `undefined` if it is refused; any other error is a bug. */
function render(
  source: string,
  variables?: Record<string, unknown>,
  now?: () => Date,
): string | undefined {
  try {
    return new Template(source, now && { now }).render(variables ?? {});
  } catch (error) {
    assert.ok(error instanceof TemplateError, `${source}: ${(error as Error).stack}`);
    return undefined;
  }
}

function requireEqual({ variables, snippets }: Snippets): void {
  for (const { template, rendered } of snippets) {
    assert.equal(render(template, variables), rendered, template);
  }
}

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(path, import.meta.url)));
}

const CASES = "../../../../shared/cases/templates/";
const QWEN3 = "../../../../shared/tokenizers/qwen3/chat_template.jinja";

function exists(path: string): boolean {
  return existsSync(new URL(path, import.meta.url));
}

Deno.test("Template.render() gives Jinja2's output for recorded snippets", () => {
  const recorded = readJson<Snippets>("../../fixtures/text/jinja/snippets.json");
  assert.ok(recorded.snippets.length > 600);
  requireEqual(recorded);
});

Deno.test({
  name: "Template.render() gives Jinja2's output for the cases in ../shared" +
    unlessThere(exists(`${CASES}snippets.json`), "cases/templates", "recorded output"),
  ignore: !exists(`${CASES}snippets.json`),
  fn: () => requireEqual(readJson(`${CASES}snippets.json`)),
});

Deno.test({
  name: "Template.render() keeps white space in Qwen3's template as Jinja2 does" +
    unlessThere(exists(QWEN3), "tokenizers/qwen3", "a published template"),
  ignore: !exists(QWEN3) || !exists(`${CASES}qwen3_conversations.json`),
  fn: () => {
    const template = new Template(Deno.readTextFileSync(new URL(QWEN3, import.meta.url)));
    const { conversations } = readJson<{
      conversations: { input: Record<string, unknown>; rendered: string }[];
    }>(`${CASES}qwen3_conversations.json`);
    for (const { input, rendered } of conversations) {
      assert.equal(template.render({ add_generation_prompt: true, ...input }), rendered);
    }
  },
});

Deno.test({
  name: "Template.render() gives Jinja2's output for templates of published models" +
    unlessThere(
      exists(`${CASES}real/recorded.json`),
      "cases/templates/real",
      "published templates",
    ),
  ignore: !exists(`${CASES}real/recorded.json`),
  fn: () => {
    const recorded = readJson<
      { file: string; name: string; variables: string; rendered?: string }[]
    >(`${CASES}real/recorded.json`);
    for (const { file, name, variables, rendered } of recorded) {
      const source = Deno.readTextFileSync(new URL(`${CASES}real/${file}`, import.meta.url));
      const now = () => new Date(2026, 2, 5, 9, 8, 7);
      const given = new JsonText(variables).readMembers();
      assert.equal(render(source, given, now), rendered, `${file}, ${name}`);
    }
  },
});

Deno.test("Template.render() formats the given time like strftime", () => {
  const template = new Template(
    "{{ strftime_now('%Y-%m-%d %H:%M:%S|%d %b %Y|%A, %B %-d|%j %U %W %V %u %y %I %p %e %%') }}",
    { now: () => new Date(2026, 0, 4, 15, 7, 9) },
  );
  // datetime(2026, 1, 4, 15, 7, 9).strftime(…)
  assert.equal(
    template.render({}),
    "2026-01-04 15:07:09|04 Jan 2026|Sunday, January 4|004 01 00 01 7 26 03 PM  4 %",
  );
});

Deno.test("Template.render() supports the flags and widths of glibc's strftime", () => {
  const formats =
    "%-d %_d %05d %3e %-e %_H %^a %^B %#p %#b %10A %010b %-j %_m %^10B %Oy %EY %q %-3M %";
  const template = new Template("{{ strftime_now(formats) }}", {
    now: () => new Date(2026, 2, 5, 9, 8, 7),
  });
  // datetime(2026, 3, 5, 9, 8, 7).strftime(formats)
  assert.equal(
    template.render({ formats }),
    "5  5 00005   5 5  9 THU MARCH am MAR   Thursday 0000000Mar 64  3      MARCH 26 2026 %q   8 %",
  );
});

const ENDLESS: Readonly<Record<string, string>> = {
  "nested loops":
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
  "doubled text":
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
  "doubled text by ~":
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
  "doubled text by replace":
    "{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x | replace('a', 'aa') %}{% endfor %}",
  "doubled text by join":
    "{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x | join(ns.x) %}{% endfor %}",
  "doubled text by recursion":
    "{% set x = 'aa' %}{% for i in range(99) %}{% for j in range(2) %}{% endfor %}{% endfor %}{% macro f(n, s) %}{% if n %}{{ f(n - 1, s ~ s) }}{% else %}{{ s }}{% endif %}{% endmacro %}{{ f(60, 'aa') }}",
  "doubled lists":
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
  "lists within lists":
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
  "lists within lists as JSON":
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
  "lists within lists, compared":
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
  "lists within lists, printed":
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | pprint }}",
  "a long range": "{{ range(10 ** 9) | list }}",
  "a repeated text": "{{ 'a' * 10 ** 9 }}",
  "a repeated list": "{{ [0] * 10 ** 9 }}",
  "a large power": "{{ 9 ** 99999999 }}",
  "squares":
    "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
  "a wide field": "{{ '{:999999999}'.format(1) }}",
  "a wide field of %": "{{ '%999999999d' % 1 }}",
  "a wide field of %, as a parameter": "{{ '%*d' % (999999999, 1) }}",
  "a precise number": "{{ '%.999999999f' % 1 }}{{ '{:.999999999f}'.format(1.5) }}",
  "center": "{{ 'a' | center(999999999) }}",
  "ljust": "{{ 'a'.ljust(999999999) }}",
  "zfill": "{{ '1'.zfill(999999999) }}",
  "indent": "{{ ('a\\n' * 99999) | indent(99999) }}",
  "indented JSON": "{{ [[[[1]]]] | tojson(indent=999999999) }}",
  "tabs": "{{ ('\\t' * 99999).expandtabs(99999) }}",
  "batch": "{{ [1] | batch(999999999, 'x') | list }}",
  "slice": "{{ [1] | slice(999999999) | list }}",
  "a macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
  "a macro that calls itself twice":
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
  "a loop that calls itself": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
  "a caller that calls itself":
    "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
  "deep brackets": "{{ " + "[".repeat(20_000) + "]".repeat(20_000) + " }}",
  "deep parentheses": "{{ " + "(".repeat(20_000) + "1" + ")".repeat(20_000) + " }}",
  "a long sum of strings": `{{ ${"'a' + ".repeat(50_000)}'a' }}`,
  "deep statements": "{% if 1 %}".repeat(20_000) + "{% endif %}".repeat(20_000),
  "tags to strip":
    "{{ ('<' * 8000000) | striptags | length }}{{ ('<!--' * 2000000) | striptags | length }}" +
    "{{ 1 / 0 }}",
  "fields to format": "{{ ('{[' * 4000000).format(1) }}",
  "characters to strip":
    "{% for i in range(50) %}{{ ('ab' * 4000000).strip('abc' * 999999) }}{% endfor %}",
  "text split from the end":
    "{% for i in range(99) %}{% set x = ('a,' * 999999).rsplit(',', 9999999) %}{% endfor %}",
  "sorting": "{% for i in range(999) %}{% set x = range(99999) | sort(reverse=true) %}{% endfor %}",
  "a generator":
    "{% for i in range(99999) %}{% for x in range(99999) | map('string') | select('eq', 'x') %}{% endfor %}{% endfor %}",
  "a long search":
    "{% set x = 'a' * 8000000 %}{% for i in range(99999) %}{{ 'b' in x }}{% endfor %}",
  "a long comparison":
    "{% set x = 'a' * 8000000 %}{% set y = 'a' * 8000000 %}{% for i in range(99999) %}{{ x == y }}{% endfor %}",
  "long keys": "{% for i in range(99999) %}{% set x = {('a' * 8000000) ~ i: 1} %}{% endfor %}",
  "much text": "{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}",
  "long numbers": "{% for i in range(99999) %}{% set x = ('9' * 4300) | int %}{% endfor %}",
  "long lists": "{% set x = range(99999) | list %}{% for i in x %}{{ -1 in x }}{% endfor %}",
  "many fields": "{{ ('%s' * 500000) % (('a' * 1000,) * 500000) }}",
  "much source": "{% if a %}{% set a = 1 %}{% endif %}".repeat(200_000),
  "lists that contain a list many times":
    "{% set l = [1] %}{% for i in range(50) %}{% set l = [l, l, l] %}{% endfor %}{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | string | length }}",
};

/** Makes the clock run faster by a factor, until it is disposed. */
function hurryClock(times: number): Disposable {
  const now = performance.now.bind(performance);
  const start = now();
  performance.now = () => start + (now() - start) * times;
  return { [Symbol.dispose]: () => Reflect.deleteProperty(performance, "now") };
}

Deno.test("Template.render() refuses a template with too many steps", () => {
  const source = ENDLESS["nested loops"]!;
  assert.throws(() => new Template(source).render({}), /more than 10000000 steps|longer than/);
});

Deno.test("Template.render() refuses a template that takes too many steps, too much memory or too long", async (t) => {
  for (const [name, source] of Object.entries(ENDLESS)) {
    await t.step(name, () => {
      // The limit of time stops the templates that exceed no limit of steps, text or depth.
      using _clock = hurryClock(50);
      assert.throws(() => new Template(source).render({}), TemplateError);
    });
  }
  // One pass over a long text is within the limits.
  assert.equal(render("{{ ('a' ~ ')' * 200000 ~ 'a') | urlize | length }}"), "200002");
  // The next render has new limits.
  assert.equal(render("{{ 1 + 1 }}"), "2");
});

Deno.test("Template.render() accepts data as deep as requests may be", () => {
  let value: unknown = 1;
  for (let i = 0; i < 100; i++) value = i % 2 === 0 ? [value] : { a: value };
  assert.equal(render("{{ x | tojson }}", { x: value })?.length, 50 * 2 + 50 * 7 + 1);
  let deep = "1";
  for (let i = 0; i < 50; i++) deep = `[${deep}]`;
  assert.equal(render("{{ x }}{{ x == x }}", { x: JSON.parse(deep) }), `${deep}True`);
});
