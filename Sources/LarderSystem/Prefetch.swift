// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// Asks the processor for a line of memory that is going to be needed, and does not wait for it.
///
/// A hint: any address is allowed, and nothing observable happens.
@unsafe
package func prefetch(_ address: UnsafeRawPointer) { unsafe larder_prefetch(address) }
