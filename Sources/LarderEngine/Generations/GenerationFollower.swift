// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A part of this process that keeps what it learned from a generation, as a memory tier does.
///
/// It holds the generation's mapped table for as long, so it is called when the store leaves it.
package final class GenerationFollower: Sendable {
  private let change: @Sendable (SharedTable) -> Void

  fileprivate init(_ change: @escaping @Sendable (SharedTable) -> Void) { self.change = change }

  /// Drops what is of an older table than `table`.
  func leave(for table: SharedTable) { change(table) }
}

/// The followers of a store, by weak references.
final class GenerationFollowers: Sendable {
  private struct Reference: Sendable {
    weak var follower: GenerationFollower?
  }

  private let references = Mutex<[Reference]>([])

  func add(_ follower: GenerationFollower) {
    references.withLock { references in
      // Those that are gone, each time their number may have doubled.
      if references.count & (references.count &- 1) == 0 {
        references.removeAll { $0.follower == nil }
      }
      references.append(Reference(follower: follower))
    }
  }

  var all: [GenerationFollower] { references.withLock { $0.compactMap(\.follower) } }
}

extension StoreCore {
  /// Registers what is called, without a lock of the store, after it has moved to another
  /// generation.
  ///
  /// - Returns: What keeps the registration; the store refers to it weakly.
  package func follow(
    _ change: @escaping @Sendable (SharedTable) -> Void
  ) -> GenerationFollower? {
    if ForkGuard.isForkedChild { return nil }
    let follower = GenerationFollower(change)
    followers.add(follower)
    return follower
  }
}
