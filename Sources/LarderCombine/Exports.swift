// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Combine || canImport(Combine)
// Re-exports the modules that declare `sink` and the other operators of publishers, and with which a
// `DispatchQueue` is a scheduler, as it is to Combine: `receive(on: DispatchQueue.main)`.
#if canImport(Combine)
@_exported public import Combine
#else
@_exported public import OpenCombine
@_exported public import OpenCombineDispatch
#endif
#endif
