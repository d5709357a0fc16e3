/** A grammar that is at fault, or that takes more work than it may; the message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Where the fault lies in the request, where that is known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}
