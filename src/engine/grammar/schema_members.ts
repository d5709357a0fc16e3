/**
 * The members of an object, in the order in which they are written. Members whose names the schema does not list are
 * counted by classes of names: names of different classes are different.
 *
 * @module
 */
import { ANYTHING, type Expressions } from "./expressions.ts";
import { type JsonPhrases, quoted } from "./json_text.ts";
import { anyOf, EMPTY_PHRASE, NEVER, type Phrase, sequence, terminal } from "./rules.ts";
import type { SchemaNode } from "./schema_document.ts";
import { MAX_CLASSES, type ObjectFacts } from "./schema_objects.ts";

/** The state of an object while it is generated. */
interface Written {
  /** Number of named members that were written or skipped. */
  readonly index: number;
  readonly isEmpty: boolean;
  /** Bounds on the number of members so far, counted no further than the schema's own bounds. */
  readonly least: number;
  readonly most: number;
  /**
   * Classes of the other names so far, as bits. A name of a new class cannot be a duplicate. 0 once there are enough
   * members.
   */
  readonly classes: number;
}

/** What building an object's phrase needs. */
interface MembersParts {
  readonly expressions: Expressions;
  readonly json: JsonPhrases;
  /** Matches values for which all these schemas hold. */
  readonly getValue: (schemas: readonly SchemaNode[]) => Phrase;
  /** Returns the phrase of a state, which is made only once. `key` is unique within the object. */
  readonly named: (key: string, make: () => Phrase) => Phrase;
}

/** Matches everything between the braces of an object. */
export function membersPhrase(facts: ObjectFacts, parts: MembersParts): Phrase {
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

/** A single class is enough if at most one more member is required. */
function classifyMembers(
  { members, others, min }: ObjectFacts,
  expressions: Expressions,
): readonly number[] {
  const numNamed = members.filter(({ isRequired }) => isRequired).length;
  if (min <= numNamed + 1) return [ANYTHING];
  return nameClasses(expressions, expressions.or(others.map(({ names }) => names)));
}

/**
 * Returns disjoint classes, each an expression, that together cover all names. They divide by first byte, by last byte
 * or by length: whichever leaves the most classes that contain an allowed name.
 */
function nameClasses(
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
    // The empty name has no bytes.
    const others = expressions.not(expressions.or(classes.slice(1)));
    const found = [others, ...classes.slice(1)]
      .filter((each) => !expressions.isEmpty(expressions.and([names, each])));
    if (found.length > most.length) most = found;
  }
  return most;
}
