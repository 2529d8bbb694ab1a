// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Re-exports the modules whose types occur in the interface of this module: indexes, queries,
// stores.
@_exported public import LarderEngine
@_exported public import LarderObjects
