export { load } from "./load.js";
export type { Options, Source } from "./load.js";
export { InputError, ParameterSet, ParameterSetError } from "./set.js";
export type { Description, Effect, EffectName, Id, Link, Row } from "./set.js";
