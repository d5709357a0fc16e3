/**
 * Shows Markdown that is still being written. A model's output is untrusted: HTML in it is shown as text, rendered HTML
 * passes DOMPurify, and images become links.
 *
 * Blocks that are complete are rendered once; only the last one is rendered anew when text arrives, so that the cost of
 * an update does not grow with the answer.
 *
 * @module
 */
import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { copyText } from "./clipboard.ts";
import { highlight } from "./highlight.ts";

/** A single block longer than this is shown as plain text: parsing it at every token would stall the page. */
const MOST_BLOCK_CHARACTERS = 20_000;
/** Long text is parsed in pieces of this size. */
const PIECE_CHARACTERS = 50_000;

const PURIFY = {
  ALLOWED_TAGS: [
    ..."p br hr em strong del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6".split(" "),
    ..."a table thead tbody tr th td span input".split(" "),
  ],
  ALLOWED_ATTR: ["href", "class", "align", "start", "type", "checked", "disabled"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // Otherwise their values have to be addresses too, and are dropped.
  ADD_URI_SAFE_ATTR: ["align", "start", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** Formulas are shown as they are written: their letters and signs are no Markdown. */
const FORMULA =
  /^(?:\\\([^]{1,2000}?\\\)|\\\[[^]{1,2000}?\\\]|\$\$[^]{1,2000}?\$\$|\$(?![\s$])[^$\n]*[^\s$\\]\$(?![\d$]))/;

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
    image: ({ href, text }: Tokens.Image) =>
      `<a href="${escapeHtml(href)}">${escapeHtml(text || "image")}</a>`,
  },
  extensions: [{
    name: "formula",
    level: "inline",
    start: (text) => text.search(/\\[([]|\$/),
    tokenizer: (text) => {
      const raw = text.match(FORMULA)?.[0];
      return raw === undefined ? undefined : { type: "formula", raw };
    },
    renderer: ({ raw }) => `<code>${escapeHtml(raw)}</code>`,
  }],
});

function escapeHtml(text: string): string {
  const names: Record<string, string> = { "&": "amp", "<": "lt", ">": "gt", '"': "quot" };
  return text.replaceAll(/[&<>"]/g, (character) => `&${names[character]};`);
}

/** Renders into its own element. */
export class MarkdownView {
  readonly #root: HTMLElement;
  /** Text whose blocks are final. */
  #done = "";
  /** Nodes of the last block. */
  #last: ChildNode[] = [];

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Shows `text`, of which more may follow unless it `isComplete`. */
  update(text: string, isComplete: boolean): void {
    if (!text.startsWith(this.#done)) {
      this.#root.replaceChildren();
      this.#done = "";
      this.#last = [];
    }
    for (const node of this.#last) node.remove();
    this.#last = [];
    for (;;) {
      const rest = text.slice(this.#done.length);
      const piece = firstPiece(rest);
      if (piece === undefined) return this.#showPlain(rest);
      const isWhole = piece.length === rest.length;
      this.#render(piece, isWhole && !isComplete);
      if (isWhole) return;
    }
  }

  #render(piece: string, isOpen: boolean): void {
    const tokens = readBlocks(piece);
    if (tokens === undefined && isOpen) return this.#showPlain(piece);
    if (tokens === undefined) {
      this.#root.append(renderPlain(piece));
      this.#done += piece;
      return;
    }
    const last = isOpen ? tokens.findLastIndex(({ type }) => type !== "space") : tokens.length;
    tokens.forEach((token, index) => {
      if (index < last) {
        this.#root.append(...renderBlock(token, { isOpen: false }));
        this.#done += token.raw;
      } else if (index === last) {
        this.#last = renderBlock(token, { isOpen: true });
        this.#root.append(...this.#last);
      }
    });
  }

  #showPlain(text: string): void {
    const block = renderPlain(text);
    this.#last = [block];
    this.#root.append(block);
  }
}

/** Blocks of a text; `undefined` where they are nested so deeply that the parser gives up. */
function readBlocks(text: string): Token[] | undefined {
  try {
    return marked.lexer(text);
  } catch {
    return undefined;
  }
}

/** Text as it is written. */
function renderPlain(text: string): HTMLElement {
  const block = document.createElement("p");
  block.className = "plain";
  block.dir = "auto";
  block.textContent = text;
  return block;
}

/** Text up to the end of a block, short enough to parse; `undefined` if its first block is too long. */
function firstPiece(text: string): string | undefined {
  if (text.length <= MOST_BLOCK_CHARACTERS) return text;
  const isCode = /^\s*```/.test(text);
  const end = isCode
    ? text.indexOf("\n```", 3) + 4
    : text.lastIndexOf("\n\n", PIECE_CHARACTERS) + 2;
  const isFound = end > 4;
  return isFound && end <= 4 * PIECE_CHARACTERS ? text.slice(0, end) : undefined;
}

/** Deepest nesting that is rendered: quotes within lists within quotes are seldom five deep. */
const MOST_LEVELS = 50;

/** Whether a block has more than {@linkcode MOST_LEVELS} levels, which browsers and DOMPurify drop or fail at. */
function isDeep(token: Token): boolean {
  let level: object[] = [token];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > 2 * MOST_LEVELS) return true;
    level = level.flatMap((each) => {
      const { tokens = [], items = [] } = each as { tokens?: Token[]; items?: Token[] };
      return [...tokens, ...items];
    });
  }
  return false;
}

function renderBlock(token: Token, { isOpen }: { isOpen: boolean }): ChildNode[] {
  if (token.type === "space") return [];
  if (token.type === "code") return [renderCode(token as Tokens.Code, isOpen)];
  if (token.raw.length > MOST_BLOCK_CHARACTERS || isDeep(token)) return [renderPlain(token.raw)];
  const fragment = DOMPurify.sanitize(marked.parser([token]), PURIFY);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = document.createElement("div");
    scroller.className = "table";
    scroller.tabIndex = 0;
    table.replaceWith(scroller);
    scroller.append(table);
  }
  // Each block is read in the direction of its own first letter.
  for (const block of fragment.children) (block as HTMLElement).dir = "auto";
  return [...fragment.childNodes];
}

/** A block of code with its language and a button that copies it. */
function renderCode({ text, lang }: Tokens.Code, isOpen: boolean): HTMLElement {
  const language = lang?.match(/^[\w+#-]+/)?.[0] ?? "";
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
  const coloured = isOpen ? undefined : highlight(text, language);
  if (coloured === undefined) code.textContent = text;
  else code.append(DOMPurify.sanitize(coloured, PURIFY));
  pre.append(code);
  figure.append(head, pre);
  return figure;
}
