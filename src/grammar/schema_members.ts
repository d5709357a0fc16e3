/**
 * The members of an object, in the order in which they are written.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { type JsonPhrases, NEVER, sequence, terminal } from "./json_phrases.ts";
import { quoted } from "./json_text.ts";
import { EMPTY_PHRASE, type Phrase } from "./rules.ts";
import type { SchemaNode } from "./schema_document.ts";
import type { ObjectFacts } from "./schema_objects.ts";

/** The state while an object is generated. */
interface Written {
  /** Named members passed, written or left out. */
  readonly index: number;
  readonly isEmpty: boolean;
  /** Least and most members so far; counted as far as that matters. */
  readonly least: number;
  readonly most: number;
  /** Whether there is a member of another name: a second could have the same name. */
  readonly hasOther: boolean;
}

/** What an object's phrase is made with. */
interface MembersParts {
  readonly expressions: Expressions;
  readonly json: JsonPhrases;
  /** Values for which all these schemas hold. */
  readonly valueOf: (schemas: readonly SchemaNode[]) => Phrase;
  /** The phrase of a state, created once; `key` is unique within the object. */
  readonly named: (key: string, make: () => Phrase) => Phrase;
}

/** What stands between the braces of an object. */
export function membersPhrase(facts: ObjectFacts, parts: MembersParts): Phrase {
  const { json, expressions, valueOf, named } = parts;
  const { members, others, min, max } = facts;

  /** The members that may follow those that are written. */
  const rest = (written: Written): Phrase =>
    named(Object.values(written).join(), () => {
      const { index, isEmpty, least, most, hasOther } = written;
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
        const value = valueOf(member.schemas);
        const name = json.text(JSON.stringify(member.name));
        const pair = isFull ? NEVER : sequence(...separator, name, json.colon, value, next);
        if (member.isRequired) return pair;
        return { kind: "any_of", options: [pair, rest({ ...written, index: index + 1 })] };
      }
      const options = isFull ? [] : others.map(({ names, schemas }) =>
        sequence(
          ...separator,
          terminal(quoted(expressions, names)),
          json.colon,
          valueOf(schemas),
          rest({ ...written, ...withOne(!hasOther), hasOther: min > 0 }),
        )
      );
      return { kind: "any_of", options: least >= min ? [...options, EMPTY_PHRASE] : options };
    });

  return rest({ index: 0, isEmpty: true, least: 0, most: 0, hasOther: false });
}
