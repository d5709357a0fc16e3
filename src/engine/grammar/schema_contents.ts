/**
 * The items of arrays and the members of objects, as phrases. Members are written in the order in which the schema
 * names them.
 *
 * @module
 */
import { ANYTHING, type Expressions } from "./expressions.ts";
import { type JsonPhrases, quoted } from "./json_text.ts";
import { anyOf, EMPTY_PHRASE, NEVER, type Phrase, sequence, terminal } from "./rules.ts";
import { MAX_CLASSES, type ObjectFacts } from "./schema_objects.ts";
import { GrammarError } from "./grammar.ts";
import type { SchemaDocument, SchemaNode } from "./schema_document.ts";
import { listValues } from "./schema_facts.ts";

/** Constraints on an array from several schemas that apply together. */
interface ArrayFacts {
  readonly prefix: readonly (readonly SchemaNode[])[];
  /** Schemas of further items; `undefined` if there may be none. */
  readonly rest: readonly SchemaNode[] | undefined;
  readonly min: number;
  readonly max: number;
  /** Path of `uniqueItems: true`, if the array may have more than one item. */
  readonly uniqueAt: string | undefined;
}

/** Largest `minItems` or `maxItems` that can be enforced. */
const MAX_COUNTED = 2_000;

export function readArrayFacts(nodes: readonly SchemaNode[], document: SchemaDocument): ArrayFacts {
  const lists = nodes.map((node) => readItems(node, document));
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const at = (index: number) => lists.flatMap(({ prefix, rest }) => prefix[index] ?? rest ?? []);
  const prefix = Array.from({ length }, (_, index) => at(index));
  const rest = at(Infinity);
  const mins = listValues<number>(nodes, "minItems");
  const maxes = listValues<number>(nodes, "maxItems");
  const min = Math.max(0, ...mins.map(({ value }) => value));
  let max = Math.min(Infinity, ...maxes.map(({ value }) => value));
  for (const { value, param } of [...mins, ...maxes]) {
    if (value > MAX_COUNTED) {
      throw new GrammarError(`more than ${MAX_COUNTED} items cannot be counted`, param);
    }
  }
  const isNever = (schemas: readonly SchemaNode[]) =>
    schemas.some(({ keywords }) => keywords === false);
  const firstNever = prefix.findIndex(isNever);
  if (firstNever >= 0) max = Math.min(max, firstNever);
  else if (isNever(rest)) max = Math.min(max, length);
  const unique = listValues<boolean>(nodes, "uniqueItems").find(({ value }) => value);
  return {
    prefix: prefix.slice(0, Math.min(max, length)),
    rest: isNever(rest) ? undefined : rest,
    min,
    max,
    uniqueAt: max > 1 ? unique?.param : undefined,
  };
}

/**
 * Matches an array with its brackets.
 *
 * @param parts `getValue` matches values for which all given schemas hold.
 * @throws {GrammarError} when items must be unique.
 */
export function buildItems(
  { prefix, rest, min, max, uniqueAt }: ArrayFacts,
  { json, getValue }: {
    readonly json: JsonPhrases;
    readonly getValue: (schemas: readonly SchemaNode[]) => Phrase;
  },
): Phrase {
  if (uniqueAt !== undefined) throw new GrammarError("uniqueItems cannot be enforced", uniqueAt);
  const { openArray, closeArray, comma } = json;
  if (min > max) return NEVER;
  const item = rest && getValue(rest);
  const more = (least: number, most: number): Phrase =>
    item === undefined || most <= 0
      ? (least > 0 ? NEVER : EMPTY_PHRASE)
      : { kind: "repeat", item: sequence(comma, item), min: Math.max(0, least), max: most };
  const orEmpty = (phrase: Phrase, index: number): Phrase =>
    index < min ? phrase : anyOf([phrase, EMPTY_PHRASE]);

  let items = more(min - prefix.length, max - prefix.length);
  if (prefix.length === 0) {
    items = item === undefined || max === 0
      ? (min > 0 ? NEVER : EMPTY_PHRASE)
      : orEmpty(sequence(item, more(min - 1, max - 1)), 0);
  }
  for (let i = prefix.length - 1; i >= 0; i--) {
    const value = getValue(prefix[i]!);
    items = orEmpty(sequence(...(i > 0 ? [comma] : []), value, items), i);
  }
  return sequence(openArray, items, closeArray);
}

function readItems(node: SchemaNode, document: SchemaDocument) {
  const { keywords, param } = node;
  if (keywords === false) return { prefix: [], rest: undefined };
  const { items, prefixItems, additionalItems } = keywords;
  const list = (prefixItems ?? (Array.isArray(items) ? items : [])) as unknown[];
  const name = prefixItems === undefined ? "items" : "prefixItems";
  const after = Array.isArray(items) ? additionalItems : items;
  const afterName = Array.isArray(items) ? "additionalItems" : "items";
  return {
    prefix: list.map((each, i) => document.node(each, `${param}.${name}[${i}]`)),
    rest: after === undefined ? undefined : document.node(after, `${param}.${afterName}`),
  };
}

/** The state of an object while it is generated. */
interface Written {
  /** Number of named members that were written or skipped. */
  readonly index: number;
  readonly isEmpty: boolean;
  /** Bounds on the number of members so far, counted no further than the schema's own bounds. */
  readonly least: number;
  readonly most: number;
  /**
   * Classes of the unlisted names so far, as bits. A name of a new class cannot be a duplicate. 0 once there are enough
   * members.
   */
  readonly classes: number;
}

/** What is needed to build the phrase of an object. */
interface MembersParts {
  readonly expressions: Expressions;
  readonly json: JsonPhrases;
  /** Matches values for which all these schemas hold. */
  readonly getValue: (schemas: readonly SchemaNode[]) => Phrase;
  /** Returns the phrase of a state, which is made only once. `key` is unique within the object. */
  readonly named: (key: string, make: () => Phrase) => Phrase;
}

/**
 * Matches everything between the braces of an object. Members whose names the schema does not list are counted by
 * classes of names, because names of different classes are certainly different.
 */
export function buildMembers(facts: ObjectFacts, parts: MembersParts): Phrase {
  const { json, expressions, getValue, named } = parts;
  const { members, others, min, max } = facts;
  const classes = classifyMembers(facts, expressions);

  /** Matches the members that may follow those already written. */
  const rest = (written: Written): Phrase =>
    named(Object.values(written).join(), () => {
      const { index, isEmpty, least, most } = written;
      const separator = isEmpty ? [] : [json.comma];
      const isFull = most >= max;
      const withOne = (isNew: boolean) => ({
        isEmpty: false,
        least: Math.min(min, least + (isNew ? 1 : 0)),
        most: max === Infinity ? 0 : most + 1,
      });
      const member = members[index];
      if (member !== undefined) {
        const next = rest({ ...written, ...withOne(true), index: index + 1 });
        const value = getValue(member.schemas);
        const name = json.text(JSON.stringify(member.name));
        const pair = isFull ? NEVER : sequence(...separator, name, json.colon, value, next);
        if (member.isRequired) return pair;
        return anyOf([pair, rest({ ...written, index: index + 1 })]);
      }
      const other = (names: number, schemas: readonly SchemaNode[], then: Phrase) =>
        sequence(
          ...separator,
          terminal(quoted(expressions, names)),
          json.colon,
          getValue(schemas),
          then,
        );
      if (isFull) return least >= min ? EMPTY_PHRASE : NEVER;
      if (least >= min) {
        const next = { ...written, ...withOne(false) };
        const options = others.map(({ names, schemas }) => other(names, schemas, rest(next)));
        return anyOf([...options, EMPTY_PHRASE]);
      }
      const options = classes.flatMap((names, i) => {
        const isNew = (written.classes >>> i & 1) === 0;
        const count = withOne(isNew);
        const seen = count.least >= min ? 0 : written.classes | 1 << i;
        const next = { ...written, ...count, classes: seen };
        return others.flatMap((each) => {
          const both = expressions.and([each.names, names]);
          return expressions.isEmpty(both) ? [] : [other(both, each.schemas, rest(next))];
        });
      });
      return anyOf(options);
    });

  return rest({ index: 0, isEmpty: true, least: 0, most: 0, classes: 0 });
}

/** Divides unlisted names into classes. A single class is enough if at most one more member is required. */
function classifyMembers(
  { members, others, min }: ObjectFacts,
  expressions: Expressions,
): readonly number[] {
  const numNamed = members.filter(({ isRequired }) => isRequired).length;
  if (min <= numNamed + 1) return [ANYTHING];
  return divideNames(expressions, expressions.or(others.map(({ names }) => names)));
}

/**
 * Returns disjoint classes, each an expression, that together cover all names. Names are divided by first byte, by last
 * byte or by length: whichever gives the most classes that contain an allowed name.
 */
function divideNames(
  expressions: Expressions,
  names: number,
): readonly number[] {
  const byByte = Array.from({ length: MAX_CLASSES }, (_, rest) => {
    const bits = new Uint32Array(8);
    for (let byte = rest; byte < 256; byte += MAX_CLASSES) bits[byte >>> 5]! |= 1 << (byte & 31);
    return expressions.set(bits);
  });
  const anyByte = expressions.range(0, 255);
  const round = expressions.repeat(anyByte, MAX_CLASSES, MAX_CLASSES);
  const partitions = [
    byByte.map((byte) => expressions.concat([byte, ANYTHING])),
    byByte.map((byte) => expressions.concat([ANYTHING, byte])),
    byByte.map((_, rest) =>
      expressions.concat([
        expressions.repeat(round, 0, Infinity),
        expressions.repeat(anyByte, rest, rest),
      ])
    ),
  ];
  let most: number[] = [];
  for (const classes of partitions) {
    // The first class also contains the empty name, which has neither a first nor a last byte.
    const others = expressions.not(expressions.or(classes.slice(1)));
    const found = [others, ...classes.slice(1)]
      .filter((each) => !expressions.isEmpty(expressions.and([names, each])));
    if (found.length > most.length) most = found;
  }
  return most;
}
