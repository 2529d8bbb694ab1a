// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The interface of this module consists of types of these: indexes, queries, stores.
@_exported public import LarderEngine
@_exported public import LarderObjects
