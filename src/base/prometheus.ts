/**
 * The classes of prom-client that are used here. Its main module imports a pushing client, a digest of quantiles and
 * metrics of Node as well, which takes each thread 20 to 40 ms before it begins.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import cluster from "prom-client/lib/cluster.js";
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";

// The types are those of the main module: these modules have none.
type Main = typeof prometheus;
export const AggregatorRegistry = cluster as unknown as Main["AggregatorRegistry"];
export const Counter = counter as unknown as Main["Counter"];
export const Gauge = gauge as unknown as Main["Gauge"];
export const Histogram = histogram as unknown as Main["Histogram"];
export const Registry = registry as unknown as Main["Registry"];
