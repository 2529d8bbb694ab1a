// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

extension Generation {
  /// Returns the object that the layer above caches for this generation, after making it if there is
  /// none.
  package func layer<Layer: AnyObject & Sendable>(_ make: () -> Layer) -> Layer {
    layerCache.withLock { cache in
      if let layer = cache as? Layer { return layer }
      let layer = make()
      cache = layer
      return layer
    }
  }
}
