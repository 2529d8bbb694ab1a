// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

@_exported public import LarderCache
@_exported public import LarderCoding
@_exported public import LarderEngine
@_exported public import LarderRecovery
@_exported public import LarderStorage
