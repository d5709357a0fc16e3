/**
 * A block of code with its language, its colours and a button that copies it.
 *
 * @module
 */
import DOMPurify from "dompurify";
import type { Tokens } from "marked";
import { copyText } from "../clipboard.ts";
import { loadPart } from "../load_part.ts";
import { renderFormulaBlock } from "./formula.ts";

type ColourCode = Awaited<ReturnType<typeof loadPart<"code_colours">>>["colourCode"];

/** Once it is loaded. */
let colourCode: ColourCode | undefined;

const PURIFY = {
  ALLOWED_TAGS: ["span"],
  ALLOWED_ATTR: ["class"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** @param isOpen whether more of it may come: its colours wait for the end. */
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

/** Colours code at once, or as soon as what does it is loaded. */
function showColours(code: HTMLElement, { text, language }: { text: string; language: string }) {
  if (colourCode === undefined) {
    loadPart("code_colours").then((part) => {
      colourCode = part.colourCode;
      showColours(code, { text, language });
      // Without colours it is read as well.
    }, () => {});
    return;
  }
  const coloured = colourCode(text, language);
  if (coloured !== undefined) code.replaceChildren(DOMPurify.sanitize(coloured, PURIFY));
}
