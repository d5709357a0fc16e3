/**
 * English: addresses of mail and the web, and names of files, sign by sign.
 *
 * @module
 */
import type { Rule } from "./rule.ts";

/** Ends of names that are hardly ever a sentence's first word, where the blank before it was forgotten. */
const DOMAINS = "com|org|net|io|dev|edu|gov|ai|app|info|eu|uk|de|fr|ch|ca|au|jp";
const FILES =
  "txt|pdf|js|ts|py|rs|sh|cpp|java|json|csv|md|html?|css|xml|ya?ml|png|jpe?g|gif|svg|zip|exe|docx?|xlsx?|pptx?|mp[34]|wav";

const SIGNS: Readonly<Record<string, string>> = {
  ".": "dot",
  "@": "at",
  "/": "slash",
  ":": "colon",
  "~": "tilde",
  "-": "dash",
  "_": "underscore",
  "+": "plus",
  "?": "question mark",
  "=": "equals",
  "&": "and",
  "#": "hash",
};

function saySigns(address: string): string {
  return address.replace(/(?<=.)\/$/, "")
    .replace(/[^\p{L}\p{N}]/gu, (sign) => ` ${SIGNS[sign] ?? ""} `);
}

/** What ends a sentence does not end an address. */
const REST = String.raw`(?::\d{2,5}\b)?(?:[/?#](?:[^\s<>()"',;]*[\w/])?)?`;
const IP = String.raw`\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)`;

/** Applied before any rule for full stops or numbers. */
export const ADDRESS_RULES: readonly Rule[] = [
  [/(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, (address) => saySigns(address)],
  [
    new RegExp(String.raw`\bhttps?://(?:www\.)?([\w-]+(?:\.[\w-]+)*${REST})`, "gi"),
    (_, address) => saySigns(address!),
  ],
  [
    new RegExp(
      String
        .raw`(?<![\w@./-])(?:(?:[\w-]+\.)+(?:${DOMAINS})\b|localhost(?=[:/]\w)|${IP})${REST}(?![\w@])`,
      "gi",
    ),
    (address) => saySigns(address),
  ],
  // Paths of files.
  [
    /(?<![\w/.])(?:~|\.{1,2})?(?:\/[\w.-]*\w){2,}\/?|(?<![\w/.])(?:~|\.{1,2})\/[\w.-]*\w\/?/g,
    (path) => saySigns(path),
  ],
  [
    new RegExp(String.raw`(?<![\w./])((?:[\w-]+\/)*[\w-]+)\.(${FILES})\b`, "gi"),
    (_, name, ending) => `${name!.replaceAll("/", " slash ")} dot ${ending}`,
  ],
  [/(?<!\S)\.(?=\p{L})/gu, () => "dot "],
];
