/**
 * HTML within an answer. Tags that format text are kept, without most attributes; all others are shown as text. The
 * result still passes DOMPurify.
 *
 * @module
 */

const FORMATTING = new Set(
  [
    "b i u s em strong del ins sub sup kbd samp var mark small q cite abbr code pre br wbr hr",
    "p div center blockquote h1 h2 h3 h4 h5 h6 ul ol li dl dt dd details summary",
    "table caption thead tbody tfoot tr th td a span",
  ].join(" ").split(" "),
);

/** Elements without content, and elements that HTML allows to end without a closing tag. */
const UNCLOSED = new Set("br wbr hr p li dt dd tr th td thead tbody tfoot".split(" "));

const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s[^<>]*?)?)\s*\/?>/gi;

/** Escapes text for HTML. */
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

/** The deepest nesting of formatting elements in a text, if none ended implicitly. */
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
