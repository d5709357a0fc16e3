/** Whether a text is valid JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a parsed JSON value is an object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An element or own property of a parsed JSON value; `undefined` if there is none. */
export function getMember(value: unknown, key: PropertyKey): unknown {
  const isThere = typeof value === "object" && value !== null && Object.hasOwn(value, key);
  return isThere ? (value as Record<PropertyKey, unknown>)[key] : undefined;
}
