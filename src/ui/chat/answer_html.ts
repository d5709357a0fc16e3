/**
 * The HTML of answers. Formulas and code in Markdown are recognised here, and rendered by parts of the page that are
 * loaded when they are first needed. Of the HTML that models write, only formatting is kept.
 *
 * @module
 */
import type { Token, TokenizerAndRendererExtension, Tokens } from "marked";
import { loadPart } from "../server.ts";
import DOMPurify from "dompurify";
import { copyText } from "../controls.tsx";

/** Longer formulas are shown as plain text. */
const MAX_CHARACTERS = 4000;

/** Matches a formula within a line of text. Nothing in it is read as Markdown. */
const INLINE =
  /^(?:\\\([^]{1,4000}?\\\)|\\\[[^]{1,4000}?\\\]|\$\$[^]{1,4000}?\$\$|\$(?![\s$])[^$\n]*[^\s$\\]\$(?![\d$]))/;
/** Matches a formula that is a block of its own. It may contain lines that look like headings or lists. */
const BLOCK =
  /^ {0,3}(?:\\\[[^]{1,4000}?\\\]|\$\$[^]{1,4000}?\$\$|\\begin\{([a-z]+\*?)\}[^]{1,4000}?\\end\{\1\})[ \t]*(?:\n|$)/;
/** Matches the beginning of such a block. */
const BLOCK_START = /^ {0,3}(?:\\\[|\$\$|\\begin\{(?:[a-z]+)\*?\})/;

/** Extensions for `marked`. */
export const FORMULAS: TokenizerAndRendererExtension[] = [
  {
    name: "formulaBlock",
    level: "block",
    start: (text) => text.match(/(?:^|\n) {0,3}(?:\\\[|\$\$|\\begin\{)/)?.index,
    tokenizer: (text) => readToken("formulaBlock", text.match(BLOCK)?.[0]),
    renderer: ({ raw }) => `<p><code class="formula">${escapeHtml(raw.trim())}</code></p>`,
  },
  {
    name: "formula",
    level: "inline",
    start: (text) => text.search(/\\[([]|\$/),
    tokenizer: (text) => readToken("formula", text.match(INLINE)?.[0]),
    renderer: ({ raw }) => `<code class="formula">${escapeHtml(raw)}</code>`,
  },
];

function readToken(type: string, raw: string | undefined): Tokens.Generic | undefined {
  return raw === undefined ? undefined : { type, raw };
}

/** Whether a token is the beginning of a block formula whose end has not arrived. */
export function isOpenFormula({ type, raw }: Token): boolean {
  return type === "paragraph" && BLOCK_START.test(raw) && raw.length < MAX_CHARACTERS;
}

/** Renders a formula that is given without delimiters. */
function renderFormulaBlock(latex: string): HTMLElement {
  const block = document.createElement("p");
  const code = document.createElement("code");
  code.className = "formula";
  code.textContent = `$$${latex}$$`;
  block.append(code);
  showFormulas(block);
  return block;
}

type Formulas = Awaited<ReturnType<typeof loadPart<"formulas">>>;

/** The loaded part that typesets formulas. */
let formulas: Formulas | undefined;

/** Typesets the formulas in an element, at once or as soon as the part for it is loaded. */
export function showFormulas(root: ParentNode): void {
  const codes = [...root.querySelectorAll<HTMLElement>("code.formula")];
  if (codes.length === 0) return;
  if (formulas !== undefined) return codes.forEach(showFormula);
  loadPart("formulas").then(async (part) => {
    await part.loadFormulaStyle();
    formulas = part;
    codes.forEach(showFormula);
    // If loading fails, formulas stay readable as LaTeX.
  }, () => {});
}

/** Typesets one formula. Text that is not LaTeX stays unchanged. */
function showFormula(code: HTMLElement): void {
  const written = code.textContent ?? "";
  try {
    const formula = formulas!.renderFormula(
      removeDelimiters(written),
      !/^(?:\\\(|\$(?!\$))/.test(written),
    );
    code.replaceWith(formula);
  } catch {
    code.title = "Not LaTeX that can be shown";
  }
}

function removeDelimiters(written: string): string {
  if (written.startsWith("\\begin")) return written;
  const length = written.startsWith("$") && !written.startsWith("$$") ? 1 : 2;
  return written.slice(length, -length);
}

type ColourCode = Awaited<ReturnType<typeof loadPart<"code_colours">>>["colourCode"];

/** The loaded part that highlights code. */
let colourCode: ColourCode | undefined;

const PURIFY = {
  ALLOWED_TAGS: ["span"],
  ALLOWED_ATTR: ["class"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** Renders a block of code. @param isOpen whether more of the code may arrive. Only complete code is highlighted. */
export function renderCode({ text, lang }: Tokens.Code, isOpen: boolean): HTMLElement {
  const language = lang?.match(/^[\w+#.-]+/)?.[0]?.toLowerCase() ?? "";
  if (language === "math" && !isOpen) return renderFormulaBlock(text);
  const figure = document.createElement("figure");
  figure.className = "code";
  const head = document.createElement("figcaption");
  head.textContent = language || "text";
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "quiet";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    await copyText(text);
    copy.textContent = "Copied";
    setTimeout(() => copy.textContent = "Copy", 1500);
  });
  head.append(copy);
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  const code = document.createElement("code");
  code.textContent = text;
  if (!isOpen && language !== "") showColours(code, { text, language });
  pre.append(code);
  figure.append(head, pre);
  return figure;
}

/** Highlights code, at once or as soon as the part for it is loaded. */
function showColours(code: HTMLElement, { text, language }: { text: string; language: string }) {
  if (colourCode === undefined) {
    loadPart("code_colours").then((part) => {
      colourCode = part.colourCode;
      showColours(code, { text, language });
      // If loading fails, code stays readable without colours.
    }, () => {});
    return;
  }
  const coloured = colourCode(text, language);
  if (coloured !== undefined) code.replaceChildren(DOMPurify.sanitize(coloured, PURIFY));
}

/** Tags that format text. */
const FORMATTING = new Set(
  [
    "b i u s em strong del ins sub sup kbd samp var mark small q cite abbr code pre br wbr hr",
    "p div center blockquote h1 h2 h3 h4 h5 h6 ul ol li dl dt dd details summary",
    "table caption thead tbody tfoot tr th td a span",
  ].join(" ").split(" "),
);

/** Elements that need no closing tag: those without content, and those that HTML closes implicitly. */
const UNCLOSED = new Set("br wbr hr p li dt dd tr th td thead tbody tfoot".split(" "));

const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s[^<>]*?)?)\s*\/?>/gi;

export function escapeHtml(text: string): string {
  const names: Record<string, string> = { "&": "amp", "<": "lt", ">": "gt", '"': "quot" };
  return text.replaceAll(/[&<>"]/g, (character) => `&${names[character]};`);
}

/** Keeps the formatting tags of HTML, and turns its other tags into text. */
export function keepFormatting(html: string): string {
  let kept = "";
  let end = 0;
  for (const tag of html.matchAll(TAG)) {
    const [whole, slash, name, attributes] = tag as unknown as [string, string, string, string];
    const lower = name.toLowerCase();
    if (!FORMATTING.has(lower)) continue;
    kept += escapeText(html.slice(end, tag.index));
    kept += `<${slash}${lower}${slash === "" ? keepAttributes(lower, attributes) : ""}>`;
    end = tag.index + whole.length;
  }
  return kept + escapeText(html.slice(end));
}

/** Escapes text, but keeps entities. */
function escapeText(text: string): string {
  return escapeHtml(text).replaceAll(/&amp;(#\d+|#x[\da-f]+|[a-z][a-z0-9]*);/gi, "&$1;");
}

/** Keeps the address of a link, and the numbers of rows and columns that a cell spans. */
function keepAttributes(name: string, attributes: string): string {
  const find = (attribute: string, value: string) =>
    attributes.match(new RegExp(`\\s${attribute}\\s*=\\s*["']?(${value})["'\\s/]?`, "i"))?.[1];
  if (name === "a") {
    const href = find("href", "(?:https?:|mailto:)[^\"'\\s<>]+");
    return href === undefined ? "" : ` href="${escapeHtml(href)}"`;
  }
  if (name !== "td" && name !== "th") return "";
  return ["colspan", "rowspan"].map((attribute) => {
    const count = find(attribute, "\\d{1,3}");
    return count === undefined ? "" : ` ${attribute}="${count}"`;
  }).join("");
}

/** Measures how deeply formatting elements are nested in a text, assuming that each ends only at its closing tag. */
export function measureNesting(html: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [, slash, name] of html.matchAll(TAG)) {
    const lower = name!.toLowerCase();
    if (!FORMATTING.has(lower) || UNCLOSED.has(lower)) continue;
    depth = Math.max(0, depth + (slash === "" ? 1 : -1));
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
