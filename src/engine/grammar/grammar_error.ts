/** An invalid grammar, or one that is too complex; the message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Path of the fault in the request, if known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}

/** No value is valid for a schema, nor for any that it is a part of; but the others of a choice may be met. */
export class ImpossibleError extends GrammarError {}

/** What `make` returns; `otherwise` where it finds a schema impossible. */
export function orImpossible<T>(make: () => T, otherwise: (error: ImpossibleError) => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof ImpossibleError) return otherwise(error);
    throw error;
  }
}
