/**
 * Typesets formulas with KaTeX. This is a bundle of its own, loaded when a formula is first shown.
 *
 * @module
 */
import katex from "katex";

/** KaTeX's style sheet, with its fonts embedded. */
const STYLE = new URL("formulas.css", import.meta.url).href;

let styled: Promise<void> | undefined;

/** Loads the style sheet. Without it, each formula would be shown twice. */
export function loadFormulaStyle(): Promise<void> {
  return styled ??= new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = STYLE;
    link.onload = link.onerror = () => resolve();
    document.head.append(link);
  });
}

/**
 * Typesets a formula as KaTeX's HTML, with MathML for screen readers. A model's output is untrusted: links, images and
 * styles in LaTeX stay off, and the number of macro expansions is limited.
 *
 * @throws {Error} when it is not LaTeX that KaTeX supports.
 */
export function renderFormula(latex: string, isDisplay: boolean): HTMLElement {
  const element = document.createElement("span");
  katex.render(latex, element, {
    displayMode: isDisplay,
    throwOnError: true,
    strict: false,
    trust: false,
    maxExpand: 1000,
    maxSize: 20,
  });
  return element;
}
