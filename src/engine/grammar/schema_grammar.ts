/**
 * Builds grammar rules for the JSON values that a schema accepts. Members of objects come in the order in which the
 * schema names them, then any other members.
 *
 * @module
 */
import { JsonPhrases, matchAnyText } from "./json_text.ts";
import type { Expressions } from "./expressions.ts";
import { GrammarError, type GrammarSpec, orImpossible } from "./grammar.ts";
import { anyOf, NEVER, type Phrase, type Rules, sequence, terminal } from "./rules.ts";
import { excludes, SchemaValues } from "./schema_values.ts";
import { type JsonType, SchemaDocument, type SchemaNode } from "./schema_document.ts";
import {
  ALL_TYPES,
  type Choice,
  type Demands,
  findTypes,
  gatherDemands,
  getType,
  listValues,
  listValuesAllowed,
} from "./schema_facts.ts";
import { buildItems, buildMembers, readArrayFacts } from "./schema_contents.ts";
import { type ObjectFacts, readObjectFacts } from "./schema_objects.ts";
import { makePlainSpelling, SchemaScalars } from "./schema_scalars.ts";

/** Maximum number of rules, and of schemas that rules combine, counted with repetition. */
const MAX_RULES = 20_000;
const MAX_COMBINED = 40_000;

/** A schema, which may be part of a document. */
type SchemaSpec = Omit<Extract<GrammarSpec, { kind: "json_schema" }>, "kind"> & {
  /**
   * If present, strings are written without quotation marks and must not contain this text. If absent, everything is
   * JSON.
   */
  readonly without?: string;
};

/** For each `Rules`, the schema grammars that add to it, by document and by `without`. */
const grammars = new WeakMap<Rules, Map<unknown, Map<string | undefined, SchemaGrammar>>>();

/** Adds a schema to a grammar. @throws {GrammarError} when it is not a schema, or cannot be enforced. */
export function buildSchema(rules: Rules, spec: SchemaSpec): Phrase {
  const { schema, param, without, within = spec } = spec;
  const ofRules = grammars.get(rules) ?? new Map();
  grammars.set(rules, ofRules);
  const ofDocument = ofRules.get(within.schema) ?? new Map();
  ofRules.set(within.schema, ofDocument);
  const grammar = ofDocument.get(without) ??
    new SchemaGrammar(rules, new SchemaDocument(within.schema, within.param), without);
  ofDocument.set(without, grammar);
  return grammar.build(schema, param);
}

class SchemaGrammar {
  readonly #rules: Rules;
  readonly #expressions: Expressions;
  readonly #document: SchemaDocument;
  /** Scalars written as JSON. */
  readonly #scalars: SchemaScalars;
  /** Scalars spelled as this grammar spells strings: as JSON, or as plain text if the spec has `without`. */
  readonly #written: SchemaScalars;
  readonly #known = new Map<string, Phrase>();
  /** Functions that define the rules that are declared, but not yet defined. */
  readonly #open: (() => void)[] = [];
  readonly #json: JsonPhrases;
  readonly #parts: Parameters<typeof excludes>[2];
  #numCombined = 0;

  constructor(rules: Rules, document: SchemaDocument, without: string | undefined) {
    const { expressions } = rules;
    this.#rules = rules;
    this.#expressions = expressions;
    this.#document = document;
    this.#scalars = new SchemaScalars(expressions);
    this.#written = without === undefined
      ? this.#scalars
      : new SchemaScalars(expressions, makePlainSpelling(expressions, without));
    this.#json = new JsonPhrases(expressions);
    const parts = { document, expressions, scalars: this.#scalars };
    this.#parts = { ...parts, values: new SchemaValues(parts) };
  }

  build(schema: unknown, param: string): Phrase {
    const root = this.#value([this.#document.node(schema, param)]);
    for (let define = this.#open.pop(); define !== undefined; define = this.#open.pop()) define();
    return root;
  }

  /** Matches values for which all these schemas hold. */
  #value(schemas: readonly SchemaNode[]): Phrase {
    return this.#meeting(gatherDemands(this.#document, schemas));
  }

  #meeting({ nodes, choices }: Demands): Phrase {
    if (nodes === undefined) return NEVER;
    this.#numCombined += nodes.length + choices.length;
    const ids = nodes.map(({ id }) => id).sort((a, b) => a - b);
    const key = `${ids.join()}|${choices.map(({ id }) => id).sort().join()}`;
    return this.#named(key, () => {
      const [choice, ...others] = choices;
      if (choice === undefined) return this.#plain(nodes);
      const listed = listValuesAllowed(nodes);
      if (listed === undefined) return this.#chosen(choice, { nodes, choices: others });
      const met = listed.filter((value) => this.#parts.values.meets(value, { nodes, choices }));
      return this.#listed(met, nodes);
    });
  }

  /** Returns the phrase with this key, which is made only once. */
  #named(key: string, make: () => Phrase): Phrase {
    let phrase = this.#known.get(key);
    if (phrase === undefined) {
      const isTooMuch = this.#numCombined > MAX_COMBINED;
      if (this.#known.size >= MAX_RULES || isTooMuch) {
        throw new GrammarError("the schema combines too many others", this.#document.root.param);
      }
      const rule = this.#rules.declare();
      phrase = { kind: "rule", rule };
      this.#known.set(key, phrase);
      this.#open.push(() => this.#rules.define(rule, make()));
    }
    return phrase;
  }

  #chosen(choice: Choice, demands: Demands): Phrase {
    const nodes = demands.nodes!;
    const { options } = choice;
    if (choice.isExclusive) this.#requireDisjoint(choice, nodes);
    return {
      kind: "any_of",
      options: options.map((option) => {
        const more = gatherDemands(this.#document, [option]);
        if (more.nodes === undefined) return NEVER;
        const ids = new Set(demands.choices.map(({ id }) => id));
        return this.#meeting({
          nodes: [...new Set([...nodes, ...more.nodes])],
          choices: [...demands.choices, ...more.choices.filter(({ id }) => !ids.has(id))],
        });
      }),
    };
  }

  #requireDisjoint({ id, options, param }: Choice, nodes: readonly SchemaNode[]): void {
    const isDisjoint = (a: SchemaNode, b: SchemaNode) =>
      excludes([...nodes, a], [...nodes, b], this.#parts, { without: id });
    options.forEach((a, i) =>
      options.forEach((b, j) => {
        if (i === j || isDisjoint(a, b)) return;
        throw new GrammarError(
          `it cannot be enforced that the options ${i} and ${j} do not both hold; use anyOf, or require ` +
            "a property with a different const in each",
          param,
        );
      })
    );
  }

  /** Matches values for which all these schemas hold. The schemas have no choices. */
  #plain(nodes: readonly SchemaNode[]): Phrase {
    const { types, isInteger } = findTypes(nodes);
    const values = listValuesAllowed(nodes);
    if (values !== undefined) return this.#listed(values, nodes);
    const options = ALL_TYPES.filter((type) => types.has(type))
      .map((type) => this.#ifPossible(() => this.#ofType(type, nodes, isInteger)));
    return anyOf(options);
  }

  /** Matches nothing if no value is valid: values of another type or for another option may still be valid. */
  #ifPossible(make: () => Phrase): Phrase {
    return orImpossible(make, (error) => {
      this.#rules.noteImpossible(error);
      return NEVER;
    });
  }

  #ofType(type: JsonType, nodes: readonly SchemaNode[], isInteger: boolean): Phrase {
    switch (type) {
      case "null":
        return this.#json.text("null");
      case "boolean":
        return terminal(
          this.#expressions.or(["true", "false"].map((each) => this.#expressions.text(each))),
        );
      case "number":
        return terminal(this.#scalars.number(nodes, isInteger));
      case "string":
        return terminal(this.#written.string(nodes));
      case "array":
        return buildItems(readArrayFacts(nodes, this.#document), {
          json: this.#json,
          getValue: (schemas) => this.#value(schemas),
        });
      case "object":
        return this.#object(readObjectFacts(nodes, this.#parts));
    }
  }

  /** Matches those of the listed values for which the schemas hold. */
  #listed(values: readonly unknown[], nodes: readonly SchemaNode[]): Phrase {
    const { types, isInteger } = findTypes(nodes);
    const texts: string[] = [];
    const scalars: string[] = [];
    const others: Phrase[] = [];
    for (const value of values) {
      const type = getType(value);
      if (!types.has(type)) continue;
      if (type === "array" || type === "object") {
        if (this.#parts.values.holds(value, nodes)) others.push(this.#json.value(value));
      } else if (type === "string") {
        texts.push(value as string);
      } else {
        const text = JSON.stringify(value);
        const isValid = type !== "number" || !hasBounds(nodes, isInteger) ||
          this.#holds(this.#scalars.number(nodes, isInteger), text);
        if (isValid) scalars.push(text);
      }
    }
    const strings = this.#ifPossible(() => terminal(this.#written.listed(texts, nodes)));
    const plain = terminal(matchAnyText(this.#expressions, scalars));
    return anyOf([strings, plain, ...others]);
  }

  #holds(expression: number, text: string): boolean {
    return this.#expressions.matches(expression, text);
  }

  #object(facts: ObjectFacts): Phrase {
    const id = `object ${this.#known.size}`;
    const members = buildMembers(facts, {
      expressions: this.#expressions,
      json: this.#json,
      getValue: (schemas) => this.#value(schemas),
      named: (key, make) => this.#named(`${id} ${key}`, make),
    });
    return sequence(this.#json.openObject, members, this.#json.closeObject);
  }
}

function hasBounds(nodes: readonly SchemaNode[], isInteger: boolean): boolean {
  return isInteger ||
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"]
      .some((keyword) => listValues(nodes, keyword).length > 0);
}
