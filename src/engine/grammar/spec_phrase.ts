/**
 * Converts the format that a request demands to the rules of a grammar.
 *
 * @module
 */
import { encodeSet } from "./code_points.ts";
import { ANYTHING } from "./expressions.ts";
import { buildGbnf } from "./gbnf.ts";
import type { GrammarSpec, GrammarTokens } from "./grammar.ts";
import { readPattern } from "./pattern.ts";
import { anyOf, EMPTY_PHRASE, type Phrase, type Rules, sequence, terminal } from "./rules.ts";
import { buildSchema } from "./schema_grammar.ts";
import { at } from "./schema_scalars.ts";

type List = Extract<GrammarSpec, { kind: "list" }>;
type Lazy = Extract<GrammarSpec, { kind: "lazy" }>;

/** Adds the format of an answer to the rules. @throws {GrammarError} when it cannot be enforced. */
export function buildSpec(spec: GrammarSpec, rules: Rules, tokens: GrammarTokens): Phrase {
  const read = (inner: GrammarSpec) => buildSpec(inner, rules, tokens);
  const { expressions } = rules;
  switch (spec.kind) {
    case "json_schema":
    case "string":
      return buildSchema(rules, spec);
    case "json_object":
      return buildSchema(rules, { schema: { type: "object" }, param: "response_format" });
    case "regex":
      return at(spec.param, () =>
        terminal(readPattern(spec.pattern, {
          expressions,
          encode: (points) => encodeSet(expressions, points),
          isSearch: false,
        })));
    case "gbnf":
      return at(spec.param, () => buildGbnf(rules, spec.text));
    case "text":
      return buildText(spec.text, rules, tokens);
    case "choice":
      return anyOf(spec.choices.map((choice) => terminal(expressions.text(choice))));
    case "sequence":
      return sequence(...spec.items.map(read));
    case "any_of":
      return anyOf(spec.options.map(read));
    case "list":
      return buildList(spec, { rules, tokens });
    case "repeat": {
      const item = rules.asRule(read(spec.item));
      return { kind: "repeat", item, min: spec.min, max: spec.max ?? Infinity };
    }
    case "until":
      return buildLazy([{ text: spec.ending, then: EMPTY_PHRASE }], { rules, tokens }).once;
    case "lazy":
      return buildLazy(readTriggers(spec, read), { rules, tokens }).repeated;
  }
}

function readTriggers({ triggers }: Lazy, read: (spec: GrammarSpec) => Phrase) {
  return triggers.map(({ text, then }) => ({ text, then: read(then) }));
}

/** Matches a text: special tokens in it as tokens, and everything else as bytes. */
function buildText(text: string, { expressions }: Rules, tokens: GrammarTokens): Phrase {
  const parts: Phrase[] = [];
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const [name, tokenId] = findSpecialToken(text, i, tokens) ?? [];
    if (name === undefined || tokenId === undefined) continue;
    if (i > from) parts.push(terminal(expressions.text(text.slice(from, i))));
    parts.push({ kind: "token", tokenId });
    i += name.length - 1;
    from = i + 1;
  }
  if (from < text.length) parts.push(terminal(expressions.text(text.slice(from))));
  return sequence(...parts);
}

/** Finds the longest special token that is spelled at this index. Added tokens that add text do not count. */
function findSpecialToken(
  text: string,
  index: number,
  tokens: GrammarTokens,
): [string, number] | undefined {
  let found: [string, number] | undefined;
  for (const [name, id] of tokens.addedTokens) {
    if (name.length <= (found?.[0].length ?? 0) || !text.startsWith(name, index)) continue;
    if (tokens.getBytes(id) === undefined) found = [name, id];
  }
  return found;
}

/** Matches a list. The rest of the list after an item is a rule, which all earlier items share. */
function buildList(
  { items, separator }: List,
  { rules, tokens }: { readonly rules: Rules; readonly tokens: GrammarTokens },
): Phrase {
  const between = buildText(separator, rules, tokens);
  let whole: Phrase = EMPTY_PHRASE;
  let rest: Phrase = EMPTY_PHRASE;
  for (const { isRequired, grammar } of items.toReversed()) {
    const item = rules.asRule(buildSpec(grammar, rules, tokens));
    const first = sequence(item, rest);
    const next = sequence(between, item, rest);
    whole = rules.asRule(isRequired ? first : anyOf([first, whole]));
    rest = rules.asRule(isRequired ? next : anyOf([next, rest]));
  }
  return whole;
}

/** Matches free text up to a trigger, and what must follow the trigger: once, or repeatedly. */
function buildLazy(
  triggers: readonly { readonly text: string; readonly then: Phrase }[],
  { rules, tokens }: { readonly rules: Rules; readonly tokens: GrammarTokens },
): { readonly once: Phrase; readonly repeated: Phrase } {
  const { expressions } = rules;
  const isToken = (text: string) => findSpecialToken(text, 0, tokens)?.[0] === text;
  const texts = triggers.flatMap(({ text }) => isToken(text) ? [] : [expressions.text(text)]);
  const anyTrigger = expressions.or(texts);
  const free = expressions.not(expressions.concat([ANYTHING, anyTrigger, ANYTHING]));
  const more = expressions.concat([expressions.range(0, 255), ANYTHING]);
  const tooLate = expressions.not(expressions.concat([ANYTHING, anyTrigger, more]));

  /** Free text, which may contain other special tokens. */
  const before: Phrase = {
    kind: "repeat",
    item: rules.asRule(sequence(terminal(free), { kind: "any_token" })),
    min: 0,
    max: Infinity,
  };
  const bound = triggers.map(({ text, then }) => {
    if (isToken(text)) return sequence(terminal(free), buildText(text, rules, tokens), then);
    const upTo = expressions.and([
      expressions.concat([ANYTHING, expressions.text(text)]),
      tooLate,
    ]);
    return sequence(terminal(upTo), then);
  });
  const once = sequence(before, anyOf(bound));
  return {
    once,
    repeated: sequence(
      { kind: "repeat", item: rules.asRule(once), min: 0, max: Infinity },
      before,
      terminal(free),
    ),
  };
}
