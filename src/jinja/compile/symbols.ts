/**
 * Resolves the names of a template to variables, in the way that follows from Jinja2's compilation to Python functions.
 * A name that a scope assigns is a variable of that scope, and begins with the value from the scope around it. A name
 * that no scope assigns is looked up among the template's variables when the scope that reads it is entered.
 *
 * @module
 */
import {
  type Expression,
  listSubexpressions,
  type Statement,
  type Target,
} from "../syntax/nodes.ts";
import { charge } from "../meter.ts";

/** The source of a variable's value when its scope is entered. */
export type Load =
  /** The code that enters the scope provides it. */
  | { readonly kind: "parameter" }
  | { readonly kind: "undefined" }
  /** The template's variable of this name provides it. */
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "outer"; readonly reference: Reference };

/**
 * A variable: a slot of one of the template's functions. These are the template itself, its macros, `call` blocks,
 * named blocks and recursive loops, and the conditions of its loops (`for … if`).
 */
export interface Reference {
  readonly owner: FunctionSlots;
  readonly slot: number;
}

/** The variable slots of a function. Scopes of the same nesting level share the slots of equal names. */
export class FunctionSlots {
  readonly #slots = new Map<string, number>();

  get size(): number {
    return this.#slots.size;
  }

  findSlot(name: string, level: number): number {
    const key = `${level} ${name}`;
    const slot = this.#slots.get(key) ?? this.#slots.size;
    this.#slots.set(key, slot);
    return slot;
  }

  /** Adds a slot without a name. */
  add(): number {
    return this.findSlot("", this.#slots.size);
  }
}

export class Scope {
  readonly parent: Scope | undefined;
  readonly owner: FunctionSlots;
  readonly #level: number;
  #references = new Map<string, Reference>();
  #loads = new Map<string, Load>();
  #stores = new Set<string>();

  /** @param owner the function that contains the scope. */
  constructor(owner: FunctionSlots, parent?: Scope) {
    this.owner = owner;
    this.parent = parent;
    this.#level = parent === undefined ? 0 : parent.#level + 1;
  }

  /** The scope's variables, with the source of each one's value when the scope is entered. */
  get loads(): readonly (readonly [Reference, Load])[] {
    return Array.from(this.#loads, ([name, load]) => [this.#references.get(name)!, load] as const);
  }

  find(name: string): Reference | undefined {
    return this.#references.get(name) ?? this.parent?.find(name);
  }

  /** All names assigned in this scope and in the scopes around it. */
  allStores(): Map<string, Reference> {
    const all = this.parent?.allStores() ?? new Map<string, Reference>();
    for (const name of this.#stores) all.set(name, this.find(name)!);
    return all;
  }

  #define(name: string, load: Load): Reference {
    const reference = { owner: this.owner, slot: this.owner.findSlot(name, this.#level) };
    this.#references.set(name, reference);
    this.#loads.set(name, load);
    return reference;
  }

  declareParameter(name: string): Reference {
    this.#stores.add(name);
    return this.#define(name, { kind: "parameter" });
  }

  #load(name: string): void {
    if (this.find(name) === undefined) this.#define(name, { kind: "variable", name });
  }

  #store(name: string): void {
    this.#stores.add(name);
    if (this.#references.has(name)) return;
    const reference = this.parent?.find(name);
    this.#define(
      name,
      reference === undefined ? { kind: "undefined" } : { kind: "outer", reference },
    );
  }

  declareTarget(target: Target | Expression): void {
    if (target.kind === "name") this.declareParameter(target.name);
    else if (target.kind === "tuple") target.items.forEach((each) => this.declareTarget(each));
  }

  #storeTarget(target: Target | Expression): void {
    if (target.kind === "name") this.#store(target.name);
    else if (target.kind === "namespace") this.#load(target.name);
    else if (target.kind === "tuple") target.items.forEach((each) => this.#storeTarget(each));
  }

  /** Records the names in expressions. */
  visitExpressions(...expressions: readonly (Expression | undefined)[]): void {
    for (const expression of expressions) {
      if (expression === undefined) continue;
      if (expression.kind === "name") this.#load(expression.name);
      this.visitExpressions(...listSubexpressions(expression));
    }
  }

  /** Records the names in statements, except those within statements that have scopes of their own. */
  visit(statements: readonly Statement[]): void {
    for (const statement of statements) this.#visitStatement(statement);
  }

  #visitStatement(statement: Statement): void {
    charge(1);
    switch (statement.kind) {
      case "print":
        return this.visitExpressions(...statement.values);
      case "set":
        this.visitExpressions(statement.value);
        return this.#storeTarget(statement.target);
      case "set block":
        return this.#storeTarget(statement.target);
      case "for":
      case "load":
        return this.visitExpressions(statement.kind === "for" ? statement.values : statement.value);
      case "macro":
        return this.#store(statement.name);
      case "call block":
        return this.visitExpressions(statement.call);
      case "filter block":
        return this.visitExpressions(statement.filter);
      case "with":
        return this.visitExpressions(...statement.values);
      case "if":
        return this.#visitIf(statement);
      default:
    }
  }

  #visitIf({ test, body, elifs, otherwise }: Extract<Statement, { kind: "if" }>): void {
    this.visitExpressions(test);
    const visitBranch = (visit: (branch: Scope) => void) => {
      const branch = this.#copy();
      visit(branch);
      return branch;
    };
    this.#merge([
      visitBranch((branch) => branch.visit(body)),
      visitBranch((branch) =>
        elifs.forEach(({ test, body }) =>
          branch.#visitStatement({ kind: "if", test, body, elifs: [], otherwise: [] })
        )
      ),
      visitBranch((branch) => branch.visit(otherwise)),
    ]);
  }

  #copy(): Scope {
    charge(this.#references.size);
    const copy = new Scope(this.owner, this.parent);
    copy.#references = new Map(this.#references);
    copy.#loads = new Map(this.#loads);
    copy.#stores = new Set(this.#stores);
    return copy;
  }

  /** Merges branches: a name that only some of them assign keeps its outer value in the others. */
  #merge(branches: readonly Scope[]): void {
    const counts = new Map<string, number>();
    for (const branch of branches) {
      for (const name of branch.#stores) {
        if (!this.#stores.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    }
    for (const branch of branches) {
      for (const [name, reference] of branch.#references) this.#references.set(name, reference);
      for (const [name, load] of branch.#loads) this.#loads.set(name, load);
      for (const name of branch.#stores) this.#stores.add(name);
    }
    for (const [name, count] of counts) {
      if (count === branches.length) continue;
      const reference = this.parent?.find(name);
      this.#loads.set(
        name,
        reference === undefined ? { kind: "variable", name } : { kind: "outer", reference },
      );
    }
  }
}
