/**
 * Parses expressions, with Jinja2's operator precedence.
 *
 * @module
 */
import type { BinaryOperator } from "../python/arithmetic.ts";
import type { CompareOperator, Expression } from "./nodes.ts";
import { OperandParser, type TupleOptions } from "./operand_parser.ts";

const COMPARISONS = ["==", "!=", "<", "<=", ">", ">="] as const;
export class ExpressionParser extends OperandParser {
  override parseExpression(hasConditions = true): Expression {
    return hasConditions ? this.#parseCondition() : this.#parseOr();
  }

  /** Parses an expression, or a tuple without parentheses. */
  override parseTuple(options: TupleOptions = {}): Expression {
    const { isSimple = false, hasConditions = true, isInParentheses = false } = options;
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.stream.expectOperator(",");
      if (this.#isTupleEnd()) break;
      items.push(isSimple ? this.parsePrimary() : this.parseExpression(hasConditions));
      if (!this.stream.isOperator(",")) break;
      isTuple = true;
    }
    if (isTuple) return { kind: "tuple", items };
    const [only] = items;
    if (only !== undefined) return only;
    if (!isInParentheses) {
      this.stream.fail(`Expected an expression, got '${this.stream.current.text}'`);
    }
    return { kind: "tuple", items };
  }

  #isTupleEnd(): boolean {
    const { type } = this.stream.current;
    return type === "end print" || type === "end block" || this.stream.isOperator(")");
  }

  #parseCondition(): Expression {
    let { line } = this.stream.current;
    let then = this.#parseOr();
    while (this.stream.skipName("if")) {
      const test = this.#parseOr();
      const otherwise = this.stream.skipName("else") ? this.#parseCondition() : undefined;
      then = { kind: "condition", test, then, otherwise, line };
      ({ line } = this.stream.current);
    }
    return then;
  }

  #parseOr(): Expression {
    let left = this.#parseAnd();
    while (this.stream.skipName("or")) {
      left = { kind: "logic", operator: "or", left, right: this.#parseAnd() };
    }
    return left;
  }

  #parseAnd(): Expression {
    let left = this.#parseNot();
    while (this.stream.skipName("and")) {
      left = { kind: "logic", operator: "and", left, right: this.#parseNot() };
    }
    return left;
  }

  #parseNot(): Expression {
    if (!this.stream.skipName("not")) return this.#parseCompare();
    return { kind: "unary", operator: "not", value: this.#parseNot() };
  }

  #parseCompare(): Expression {
    const first = this.#parseSum();
    const others: { operator: CompareOperator; value: Expression }[] = [];
    for (;;) {
      const operator = this.#takeComparison();
      if (operator === undefined) break;
      others.push({ operator, value: this.#parseSum() });
    }
    return others.length === 0 ? first : { kind: "compare", first, others };
  }

  #takeComparison(): CompareOperator | undefined {
    const { stream } = this;
    if (stream.isOperator(...COMPARISONS)) return stream.next().text as CompareOperator;
    if (stream.skipName("in")) return "in";
    const { type, text } = stream.following;
    if (!stream.isName("not") || type !== "name" || text !== "in") return undefined;
    stream.next();
    stream.next();
    return "not in";
  }

  #parseSum(): Expression {
    return this.#parseBinary(["+", "-"], () => this.#parseConcat());
  }

  #parseConcat(): Expression {
    const items = [this.#parseProduct()];
    while (this.stream.skipOperator("~")) items.push(this.#parseProduct());
    return items.length === 1 ? items[0]! : { kind: "concat", items };
  }

  #parseProduct(): Expression {
    return this.#parseBinary(["*", "/", "//", "%"], () => this.#parsePower());
  }

  #parsePower(): Expression {
    return this.#parseBinary(["**"], () => this.#parseUnary());
  }

  #parseBinary(operators: readonly BinaryOperator[], parse: () => Expression): Expression {
    let left = parse();
    while (this.stream.isOperator(...operators)) {
      const operator = this.stream.next().text as BinaryOperator;
      left = { kind: "binary", operator, left, right: parse() };
    }
    return left;
  }

  #parseUnary(hasFilter = true): Expression {
    const { stream } = this;
    const parseSigned = (): Expression => {
      if (!stream.isOperator("-", "+")) return this.parsePrimary();
      const operator = stream.next().text as "-" | "+";
      return { kind: "unary", operator, value: this.#parseUnary(false) };
    };
    const value = this.parsePostfix(parseSigned());
    return hasFilter ? this.parseFilters(value) : value;
  }
}
