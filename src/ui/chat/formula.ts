/**
 * Formulas and code in Markdown: recognised here, rendered by parts that are loaded when first needed.
 *
 * @module
 */
import type { Token, TokenizerAndRendererExtension, Tokens } from "marked";
import { loadPart } from "../load_part.ts";
import { escapeHtml } from "./answer_html.ts";
import DOMPurify from "dompurify";
import { copyText } from "../clipboard.ts";

/** Longer formulas are shown as plain text. */
const MAX_CHARACTERS = 4000;

/** A formula in a line of text. Its letters and symbols have no meaning in Markdown. */
const INLINE =
  /^(?:\\\([^]{1,4000}?\\\)|\\\[[^]{1,4000}?\\\]|\$\$[^]{1,4000}?\$\$|\$(?![\s$])[^$\n]*[^\s$\\]\$(?![\d$]))/;
/** A block formula may contain lines that would otherwise be headings or lists. */
const BLOCK =
  /^ {0,3}(?:\\\[[^]{1,4000}?\\\]|\$\$[^]{1,4000}?\$\$|\\begin\{([a-z]+\*?)\}[^]{1,4000}?\\end\{\1\})[ \t]*(?:\n|$)/;
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

/** Whether a paragraph is the beginning of a formula whose end has not arrived. */
export function isOpenFormula({ type, raw }: Token): boolean {
  return type === "paragraph" && BLOCK_START.test(raw) && raw.length < MAX_CHARACTERS;
}

/** Renders a formula without its delimiters. */
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

/** Typesets one formula. Text that is not LaTeX stays as it is. */
function showFormula(code: HTMLElement): void {
  const written = code.textContent ?? "";
  try {
    const formula = formulas!.renderFormula(
      removeMarks(written),
      !/^(?:\\\(|\$(?!\$))/.test(written),
    );
    code.replaceWith(formula);
  } catch {
    code.title = "Not LaTeX that can be shown";
  }
}

function removeMarks(written: string): string {
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

/** @param isOpen whether more of the code may arrive: colours wait for its end. */
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
