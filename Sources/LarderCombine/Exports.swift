// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Combine || canImport(Combine)
// Re-exports the module that declares `sink` and the other operators of publishers.
#if canImport(Combine)
@_exported public import Combine
#else
@_exported public import OpenCombine
#endif
#endif
