/**
 * Import this before onnxruntime-web. In a worker started from a `file:` URL, that builds a URL from `location.origin`,
 * which is "null" there, and fails on import. Without `location` it uses its own address.
 *
 * @module
 */
Reflect.deleteProperty(globalThis, "location");
