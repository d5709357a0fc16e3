/**
 * Typesets formulas with KaTeX. A bundle of its own, loaded with the first formula that is shown.
 *
 * @module
 */
import katex from "katex";

/** The style sheet that belongs to it: KaTeX's own, with its fonts in it. */
const STYLE = new URL("formulas.css", import.meta.url).href;

let styled: Promise<void> | undefined;

/** Loads the style sheet, without which a formula is shown twice. */
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
 * A formula as KaTeX's HTML, with MathML for screen readers. What a model writes is untrusted: links, images and styles
 * of LaTeX stay switched off, and macros are expanded so often at most.
 *
 * @throws {Error} when it is no LaTeX that KaTeX knows.
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
