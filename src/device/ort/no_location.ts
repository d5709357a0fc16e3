/**
 * Import before onnxruntime-web: in a worker started from a `file:` URL it builds a URL from `location.origin`, which
 * is "null" there, and fails on import. Without `location` it uses its own address.
 *
 * @module
 */
Reflect.deleteProperty(globalThis, "location");
