/** Work on a text that would take too long, or write too much: `tokenizer.json` comes from anybody. */
export class BudgetError extends Error {
  override readonly name = "BudgetError";
}
