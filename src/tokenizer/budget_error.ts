/** Thrown when work on a text would take too long or produce too much: `tokenizer.json` may come from anybody. */
export class BudgetError extends Error {
  override readonly name = "BudgetError";
}
