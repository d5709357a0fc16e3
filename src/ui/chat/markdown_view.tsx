/**
 * Shows Markdown that is still being written. A model's output is untrusted: only HTML tags that format text are kept,
 * rendered HTML passes DOMPurify, and images become links.
 *
 * Complete blocks are rendered once. When text arrives, only the last block is rendered again, so that the cost of an
 * update does not grow with the answer.
 *
 * @module
 */
import DOMPurify from "dompurify";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Marked, type Token, type Tokens } from "marked";
import {
  escapeHtml,
  FORMULAS,
  isOpenFormula,
  keepFormatting,
  measureNesting,
  renderCode,
  showFormulas,
} from "./answer_html.ts";

/** A longer block is shown as plain text: parsing it again with every new token would block the page. */
const MAX_BLOCK_CHARACTERS = 20_000;
/** Long text is parsed in chunks of this size. */
const CHUNK_CHARACTERS = 50_000;

const PURIFY = {
  ALLOWED_TAGS: [
    ..."p br wbr hr em strong del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6".split(" "),
    ..."a table caption thead tbody tfoot tr th td span input".split(" "),
    ..."b i u s ins sub sup kbd samp var mark small q cite abbr div center dl dt dd".split(" "),
    ..."details summary".split(" "),
  ],
  ALLOWED_ATTR: [
    ..."href class align start type checked disabled colspan rowspan".split(" "),
  ],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // DOMPurify would otherwise require these attributes to be addresses, and drop them.
  ADD_URI_SAFE_ATTR: ["align", "start", "type", "colspan", "rowspan"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => keepFormatting(text),
    image: ({ href, text }: Tokens.Image) =>
      `<a href="${escapeHtml(href)}">${escapeHtml(text || "image")}</a>`,
  },
  extensions: FORMULAS,
});

/** Shows the text of an answer. @param props.isComplete whether no more text follows. */
export function Markdown({ text, isComplete }: { text: string; isComplete: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | undefined>(undefined);
  const pending = useRef<number | undefined>(undefined);
  const restUntilMs = useRef(0);
  useLayoutEffect(() => {
    const update = () => {
      view.current ??= new MarkdownView(root.current!);
      const startedMs = performance.now();
      view.current.update(text, isComplete);
      // After each update, rendering pauses for three times as long as the update took. So it takes at most a quarter
      // of the page's time, even if a block is long.
      const endedMs = performance.now();
      restUntilMs.current = endedMs + 3 * (endedMs - startedMs);
    };
    const restMs = isComplete ? 0 : restUntilMs.current - performance.now();
    if (restMs <= 0) update();
    else pending.current = setTimeout(update, restMs);
    return () => clearTimeout(pending.current);
  }, [text, isComplete]);
  return <div class="markdown" ref={root} />;
}

/** Renders Markdown into an element. */
class MarkdownView {
  readonly #root: HTMLElement;
  /** The text of the blocks that are rendered for good. */
  #done = "";
  /** DOM nodes of the last block. */
  #last: ChildNode[] = [];

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Shows `text`. More text may follow unless `isComplete` is set. */
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
      const chunk = takeChunk(rest);
      if (chunk === undefined) return this.#showPlain(rest);
      const isWhole = chunk.length === rest.length;
      this.#render(chunk, isWhole && !isComplete);
      if (isWhole) return;
    }
  }

  #render(chunk: string, isOpen: boolean): void {
    const tokens = readBlocks(chunk);
    if (tokens === undefined && isOpen) return this.#showPlain(chunk);
    if (tokens === undefined) {
      this.#root.append(renderPlain(chunk));
      this.#done += chunk;
      return;
    }
    const last = isOpen ? findOpenBlock(tokens) : tokens.length;
    const open = tokens.slice(last);
    tokens.forEach((token, index) => {
      if (index < last) {
        this.#root.append(...renderBlock(token, { isOpen: false }));
        this.#done += token.raw;
      }
    });
    this.#last = open.flatMap((token) => renderBlock(token, { isOpen: true }));
    this.#root.append(...this.#last);
  }

  #showPlain(text: string): void {
    const block = renderPlain(text);
    this.#last = [block];
    this.#root.append(block);
  }
}

/**
 * Finds the index of the first block that may change when more text arrives: the last one, or the beginning of an
 * unfinished formula or `<details>`.
 */
function findOpenBlock(tokens: readonly Token[]): number {
  const begun = tokens.findIndex((token) => isOpenFormula(token) || isOpenFold(token));
  return begun >= 0 ? begun : tokens.findLastIndex(({ type }) => type !== "space");
}

/** Parses a text into blocks; `undefined` if they are nested so deeply that the parser gives up. */
function readBlocks(text: string): Token[] | undefined {
  try {
    return joinFolds(marked.lexer(text));
  } catch {
    return undefined;
  }
}

function renderPlain(text: string): HTMLElement {
  const block = document.createElement("p");
  block.className = "plain";
  block.dir = "auto";
  block.textContent = text;
  return block;
}

/**
 * Takes a prefix of the text that ends with a block and is short enough to parse; `undefined` if the first block is too
 * long.
 */
function takeChunk(text: string): string | undefined {
  if (text.length <= MAX_BLOCK_CHARACTERS) return text;
  const isCode = /^\s*```/.test(text);
  const end = isCode
    ? text.indexOf("\n```", 3) + 4
    : text.lastIndexOf("\n\n", CHUNK_CHARACTERS) + 2;
  const isFound = end > 4;
  return isFound && end <= 4 * CHUNK_CHARACTERS ? text.slice(0, end) : undefined;
}

/** Deepest nesting that is rendered. Real text is rarely nested more than five levels deep. */
const MAX_LEVELS = 50;

/**
 * Whether a block is nested too deeply: browsers and DOMPurify drop such blocks or fail. Two levels of tokens are
 * allowed for each of {@linkcode MAX_LEVELS} levels, because a list and its items are two.
 */
function isDeep(token: Token): boolean {
  let level: object[] = [token];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > 2 * MAX_LEVELS) return true;
    level = level.flatMap((each) => {
      const { tokens = [], items = [] } = each as { tokens?: Token[]; items?: Token[] };
      return [...tokens, ...items];
    });
  }
  return false;
}

/** A `<details>` element with its content: several blocks in Markdown, but one element in HTML. */
interface FoldToken extends Tokens.Generic {
  readonly type: "fold";
  readonly tokens: Token[];
}

/** Maximum number of blocks within one `<details>`. */
const MAX_FOLDED = 60;

function isOpenFold(token: Token): boolean {
  return token.type === "html" && countFolds(token.raw) > 0;
}

function countFolds(html: string): number {
  return (html.match(/<details[\s>]/gi)?.length ?? 0) -
    (html.match(/<\/details\s*>/gi)?.length ?? 0);
}

function joinFolds(tokens: readonly Token[]): Token[] {
  const joined: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const end = isOpenFold(tokens[at]!) ? findFoldEnd(tokens, at) : -1;
    if (end < 0) {
      joined.push(tokens[at]!);
      continue;
    }
    const inner = tokens.slice(at, end + 1);
    joined.push(
      { type: "fold", raw: inner.map(({ raw }) => raw).join(""), tokens: inner } as FoldToken,
    );
    at = end;
  }
  return joined;
}

function findFoldEnd(tokens: readonly Token[], begin: number): number {
  let open = 0;
  for (let at = begin; at < Math.min(tokens.length, begin + MAX_FOLDED); at++) {
    const { type, raw } = tokens[at]!;
    if (type === "html") open += countFolds(raw);
    if (open <= 0) return at;
  }
  return -1;
}

function renderBlock(token: Token, { isOpen }: { isOpen: boolean }): ChildNode[] {
  if (token.type === "space") return [];
  if (token.type === "code") return [renderCode(token as Tokens.Code, isOpen)];
  const isHuge = token.raw.length > MAX_BLOCK_CHARACTERS;
  if (isHuge || isDeep(token) || measureNesting(token.raw) > MAX_LEVELS) {
    return [renderPlain(token.raw)];
  }
  const tokens = token.type === "fold" ? (token as FoldToken).tokens : [token];
  const fragment = DOMPurify.sanitize(marked.parser(tokens), PURIFY);
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
  // Each block gets the text direction of its own first letter.
  for (const block of fragment.children) (block as HTMLElement).dir = "auto";
  showFormulas(fragment);
  return [...fragment.childNodes];
}
