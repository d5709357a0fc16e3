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
  "-": "dash",
  "_": "underscore",
  "+": "plus",
  "?": "question mark",
  "=": "equals",
  "&": "and",
  "#": "hash",
};

function saySigns(address: string): string {
  return address.replace(/\/$/, "").replace(/[^\p{L}\p{N}]/gu, (sign) => ` ${SIGNS[sign] ?? ""} `);
}

/** Applied before any rule for full stops or numbers. */
export const ADDRESS_RULES: readonly Rule[] = [
  [/(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, (address) => saySigns(address)],
  [
    // What ends a sentence does not end an address.
    new RegExp(
      String
        .raw`(?<![\w@.-])(?:[\w-]+\.)+(?:${DOMAINS})\b(?:[/?#](?:[^\s<>()"',;]*[\w/])?)?(?![\w@])`,
      "gi",
    ),
    (address) => saySigns(address),
  ],
  [
    new RegExp(String.raw`(?<![\w.])([\w-]+)\.(${FILES})\b`, "gi"),
    (_, name, ending) => `${name} dot ${ending}`,
  ],
];
