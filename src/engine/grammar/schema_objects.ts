/**
 * Constraints on an object's members from several schemas that apply together.
 *
 * @module
 */
import { inside, matchAnyText } from "./json_text.ts";
import { type Expressions, NOTHING } from "./expressions.ts";
import { GrammarError, ImpossibleError } from "./grammar.ts";
import { type SchemaDocument, type SchemaNode, toMemberParam } from "./schema_document.ts";
import { listBeside, listValues } from "./schema_facts.ts";
import type { SchemaScalars } from "./schema_scalars.ts";

/** Maximum number of members that a grammar can count, for `minProperties`, if the schema does not name them. */
export const MAX_CLASSES = 8;

/** A named member. */
export interface Member {
  readonly name: string;
  readonly isRequired: boolean;
  readonly schemas: readonly SchemaNode[];
}

/** Members that the schemas do not name. The expression `names` matches their names, without quotation marks. */
interface OtherMembers {
  readonly names: number;
  readonly schemas: readonly SchemaNode[];
}

export interface ObjectFacts {
  /** Members in the order in which they are written. */
  readonly members: readonly Member[];
  readonly others: readonly OtherMembers[];
  readonly min: number;
  readonly max: number;
}

/** Maximum number of name patterns in an object: every combination of matches is distinguished. */
const MAX_PATTERNS = 4;

interface Parts {
  readonly document: SchemaDocument;
  readonly expressions: Expressions;
  readonly scalars: SchemaScalars;
  /** Whether further schemas will apply. They may constrain members that these schemas do not mention. */
  readonly isOpen?: boolean;
}

/** A member that the schemas name, or, without a name, all other members whose names match the same patterns. */
interface NamedMember {
  readonly name: string | undefined;
  /** The patterns that the name matches. */
  readonly matched: ReadonlySet<string>;
}

/** Collects the constraints. @throws {ImpossibleError} when a member is both required and not allowed. */
export function readObjectFacts(nodes: readonly SchemaNode[], parts: Parts): ObjectFacts {
  const reader = new ObjectReader(nodes, parts);
  return reader.read();
}

class ObjectReader {
  readonly #nodes: readonly SchemaNode[];
  readonly #parts: Parts;
  /** Expressions of name patterns by their source. */
  readonly #patterns = new Map<string, number>();
  readonly #besides = new Map<SchemaNode, ReadonlySet<SchemaNode>>();

  constructor(nodes: readonly SchemaNode[], parts: Parts) {
    this.#nodes = nodes;
    this.#parts = parts;
    for (
      const { value, param } of listValues<Record<string, unknown>>(nodes, "patternProperties")
    ) {
      for (const pattern of Object.keys(value)) {
        this.#patterns.set(pattern, parts.scalars.pattern(pattern, toMemberParam(param, pattern)));
        if (this.#patterns.size <= MAX_PATTERNS) continue;
        throw new GrammarError(`more than ${MAX_PATTERNS} patterns cannot be enforced`, param);
      }
    }
  }

  read(): ObjectFacts {
    const required = new Set(
      listValues<string[]>(this.#nodes, "required").flatMap(({ value }) => value),
    );
    const names = new Set(
      listValues<Record<string, unknown>>(this.#nodes, "properties")
        .flatMap(({ value }) => Object.keys(value)),
    );
    required.forEach((name) => names.add(name));
    const mins = listValues<number>(this.#nodes, "minProperties");
    const min = Math.max(0, ...mins.map((each) => each.value));
    // Names that `propertyNames` lists can be counted one by one.
    if (min > 1) this.#nameSchemas().flatMap(listNames).flat().forEach((name) => names.add(name));
    const members: Member[] = [];
    this.#parts.expressions.visit(names.size * this.#nodes.length);
    for (const name of names) {
      const schemas = this.#findSchemas(name);
      const isAllowed = this.#isNameAllowed(name) &&
        schemas.every(({ keywords }) => keywords !== false);
      if (isAllowed) members.push({ name, isRequired: required.has(name), schemas });
      else if (required.has(name)) {
        throw new ImpossibleError(
          `the member ${JSON.stringify(name.slice(0, 60))} is required but not allowed`,
          listValues(this.#nodes, "required")[0]!.param,
        );
      }
    }
    if (min > members.length + MAX_CLASSES) {
      throw new GrammarError(
        `more than ${MAX_CLASSES} members that the schema does not name cannot be counted`,
        mins.find(({ value }) => value === min)!.param,
      );
    }
    const max = Math.min(
      Infinity,
      ...listValues<number>(this.#nodes, "maxProperties").map((each) => each.value),
    );
    return { members, others: this.#otherMembers(names), min, max };
  }

  /** The schemas that apply to a member's value. */
  #findSchemas(name: string): SchemaNode[] {
    const canonical = inside(name);
    const { expressions } = this.#parts;
    const matched = new Set<string>();
    for (const [pattern, expression] of this.#patterns) {
      if (expressions.matches(expression, canonical)) matched.add(pattern);
    }
    return this.#nodes.flatMap((node) => this.#schemasIn(node, { name, matched }));
  }

  #schemasIn(
    node: SchemaNode,
    { name, matched }: NamedMember,
  ): SchemaNode[] {
    if (node.keywords === false) return [];
    const { document } = this.#parts;
    const found: SchemaNode[] = [];
    const properties = (node.keywords["properties"] ?? {}) as Record<string, unknown>;
    if (name !== undefined && Object.hasOwn(properties, name)) {
      found.push(document.node(properties[name], toMemberParam(`${node.param}.properties`, name)));
    }
    const patterns = (node.keywords["patternProperties"] ?? {}) as Record<string, unknown>;
    for (const [pattern, schema] of Object.entries(patterns)) {
      if (!matched.has(pattern)) continue;
      found.push(document.node(schema, toMemberParam(`${node.param}.patternProperties`, pattern)));
    }
    if (found.length > 0) return found;
    const { additionalProperties, unevaluatedProperties } = node.keywords;
    if (additionalProperties !== undefined) {
      return [document.node(additionalProperties, `${node.param}.additionalProperties`)];
    }
    const isFree = unevaluatedProperties === undefined || this.#parts.isOpen ||
      this.#isEvaluatedIn(node, { name, matched });
    if (isFree) return [];
    return [document.node(unevaluatedProperties, `${node.param}.unevaluatedProperties`)];
  }

  /** Whether the member is mentioned by a schema that applies along with `node` (see {@linkcode listBeside}). */
  #isEvaluatedIn(node: SchemaNode, member: NamedMember): boolean {
    return [...this.#beside(node)].some((other) =>
      (other.keywords !== false && other.keywords["unevaluatedProperties"] !== undefined) ||
      this.#schemasIn(other, member).length > 0
    );
  }

  /** The reader's schemas that {@linkcode listBeside} lists for a node, for those schemas in turn, and so on. */
  #beside(node: SchemaNode): ReadonlySet<SchemaNode> {
    const known = this.#besides.get(node);
    if (known !== undefined) return known;
    const found = new Set<SchemaNode>();
    const holding = new Set(this.#nodes);
    const open = [node];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const other of listBeside(this.#parts.document, next)) {
        if (other === node || found.has(other) || !holding.has(other)) continue;
        found.add(other);
        open.push(other);
      }
    }
    this.#besides.set(node, found);
    return found;
  }

  #nameSchemas(): SchemaNode[] {
    return listValues(this.#nodes, "propertyNames").map(({ value, param }) =>
      this.#parts.document.node(value, param)
    );
  }

  #isNameAllowed(name: string): boolean {
    return this.#parts.expressions.matches(this.#allowedNames(), inside(name));
  }

  /** Matches names that `propertyNames` allows. */
  #allowedNames(): number {
    const { expressions, scalars } = this.#parts;
    const nodes = this.#nameSchemas();
    if (nodes.some(({ keywords }) => keywords === false)) return NOTHING;
    const listed = nodes.flatMap((node) => listNames(node));
    const unknown = nodes.find(({ keywords }) =>
      ["$ref", "allOf", "anyOf", "oneOf"].some((name) => Object.hasOwn(keywords as object, name))
    );
    if (unknown !== undefined) {
      throw new GrammarError(
        "references and choices in propertyNames cannot be enforced",
        unknown.param,
      );
    }
    const lists = listed.map((names) => matchAnyText(expressions, names.map(inside)));
    return expressions.and([scalars.canonicalInside(nodes), ...lists]);
  }

  #otherMembers(names: ReadonlySet<string>): OtherMembers[] {
    const { expressions } = this.#parts;
    const declared = matchAnyText(expressions, [...names].map(inside));
    const allowed = expressions.and([this.#allowedNames(), expressions.not(declared)]);
    const patterns = [...this.#patterns];
    const others: OtherMembers[] = [];
    for (let bits = 0; bits < 2 ** patterns.length; bits++) {
      const isIn = (index: number) => (bits >>> index & 1) === 1;
      const matched = new Set(patterns.filter((_, i) => isIn(i)).map(([pattern]) => pattern));
      const schemas = this.#nodes.flatMap((node) =>
        this.#schemasIn(node, { name: undefined, matched })
      );
      if (schemas.some(({ keywords }) => keywords === false)) continue;
      const found = expressions.and([
        allowed,
        ...patterns.map(([, each], i) => isIn(i) ? each : expressions.not(each)),
      ]);
      if (!expressions.isEmpty(found)) others.push({ names: found, schemas });
    }
    return others;
  }
}

/** Lists the names that a schema of `propertyNames` allows: one list for its `enum`, and one for its `const`. */
function listNames({ keywords }: SchemaNode): string[][] {
  if (keywords === false) return [];
  const lists = [
    ...(Object.hasOwn(keywords, "enum") ? [keywords["enum"] as unknown[]] : []),
    ...(Object.hasOwn(keywords, "const") ? [[keywords["const"]]] : []),
  ];
  return lists.map((list) => list.filter((each) => typeof each === "string"));
}
