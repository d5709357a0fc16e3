/**
 * The filter `urlize`, which turns text that looks like an address into links.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import { isTrue, toList } from "../python/iterate.ts";
import { requireIndex } from "../python/numbers.ts";
import { type Native, native } from "../python/signature.ts";
import { requireText } from "../python/string_methods.ts";
import { countChars, escapeHtml, sliceChars } from "../python/text.ts";
import type { Value } from "../python/values.ts";
import { raise } from "../template_error.ts";
import { escape, markIfEscaping } from "./autoescape.ts";

const HTTP =
  /^(?:(?:https?:\/\/|www\.)(?:[\w%-]+\.)+[a-z]{2,63}|(?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)|https?:\/\/(?:(?:[\d]{1,3})(?:\.[\d]{1,3}){3}|\[(?:(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6})\]))(?::\d{1,5})?(?:[/?#]\S*)?$/i;
const EMAIL = /^\S+@\w[\w.-]*\.\w+$/;
const PAIRS = [["(", ")"], ["<", ">"], ["&lt;", "&gt;"]] as const;

interface LinkOptions {
  readonly maxChars: number;
  /** HTML attributes of the links. */
  readonly attributes: string;
  readonly schemes: readonly string[];
}

export const URL_FILTERS: Readonly<Record<string, Native>> = {
  urlize: native(
    "value, trim_url_limit, nofollow, target, rel, extra_schemes",
    (
      value: Value,
      limit: Value = null,
      noFollow: Value = false,
      target: Value = null,
      rel: Value = null,
      schemes: Value = null,
    ) => {
      const relations = new Set(
        (rel === null ? "" : requireText(rel)).split(/\s+/).filter(Boolean),
      );
      if (isTrue(noFollow)) relations.add("nofollow");
      relations.add("noopener");
      const all = schemes === null ? [] : toList(schemes).map((each) => requireText(each));
      const bad = all.find((scheme) => !/^[\w.+-]{2,}:\/{0,2}$/.test(scheme));
      if (bad !== undefined) {
        raise("FilterArgumentError", `'${bad}' is not a valid URI scheme prefix.`);
      }
      return markIfEscaping(linkAll(escape(value), {
        maxChars: limit === null ? Infinity : requireIndex(limit),
        attributes: ` rel="${escapeHtml([...relations].sort().join(" "))}"` +
          (target === null ? "" : ` target="${escape(target)}"`),
        schemes: all,
      }));
    },
  ),
};

function linkAll(html: string, options: LinkOptions): string {
  chargeText(html.length * 8);
  return html.split(/(\s+)/).map((word) => linkWord(word, options)).join("");
}

function linkWord(word: string, options: LinkOptions): string {
  const head = /^(?:[(<]|&lt;)+/.exec(word)?.[0] ?? "";
  const end = findTail(word, head.length);
  let middle = word.slice(head.length, end);
  let tail = word.slice(end);
  for (const [open, close] of PAIRS) {
    const numOpen = middle.split(open).length - 1;
    if (numOpen <= middle.split(close).length - 1) continue;
    // A closing bracket belongs to the address if it was opened within it.
    for (let i = Math.min(numOpen, tail.split(close).length - 1); i > 0; i--) {
      const end = tail.indexOf(close) + close.length;
      middle += tail.slice(0, end);
      tail = tail.slice(end);
    }
  }
  return head + link(middle, options) + tail;
}

/** The start of the punctuation at the end of a word, at `start` or after it. */
function findTail(word: string, start: number): number {
  let end = word.length;
  for (;;) {
    const length = /[)>.,\n]/.test(word.slice(end - 1, end))
      ? 1
      : word.endsWith("&gt;", end)
      ? 4
      : 0;
    if (length === 0 || end - length < start) return end;
    end -= length;
  }
}

function link(text: string, { maxChars, attributes, schemes }: LinkOptions): string {
  const shown = countChars(text) > maxChars ? `${sliceChars(text, 0, maxChars)}...` : text;
  if (HTTP.test(text)) {
    const address = /^https?:\/\//.test(text) ? text : `https://${text}`;
    return `<a href="${address}"${attributes}>${shown}</a>`;
  }
  if (text.startsWith("mailto:") && EMAIL.test(text.slice(7))) {
    return `<a href="${text}">${text.slice(7)}</a>`;
  }
  if (EMAIL.test(text) && !text.startsWith("www.") && !text.includes(":")) {
    return `<a href="mailto:${text}">${text}</a>`;
  }
  const scheme = schemes.find((each) => text !== each && text.startsWith(each));
  return scheme === undefined ? text : `<a href="${text}"${attributes}>${text}</a>`;
}
