// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// Which watches an object has. It holds neither: a watch is held by what it is attached to.
enum WatchRegistry {
  private struct Entry: Sendable {
    weak let observation: (any Observation)?
    let identity: ObjectIdentifier
  }

  private static let entries = Mutex<[ObjectIdentifier: [Entry]]>([:])

  /// The living watches of an object, the oldest first.
  static func observations(of object: AnyObject) -> [any Observation] {
    let known = entries.withLock { $0[ObjectIdentifier(object)] } ?? []
    return known.compactMap(\.observation).filter { $0.isActive && $0.watches(object) }
  }

  static func add(_ observation: any Observation, of object: AnyObject) {
    let entry = Entry(observation: observation, identity: ObjectIdentifier(observation))
    entries.withLock { $0[ObjectIdentifier(object), default: []].append(entry) }
  }

  static func remove(id: ObjectIdentifier, of object: ObjectIdentifier) {
    entries.withLock { entries in
      entries[object]?.removeAll { $0.identity == id && $0.observation == nil }
      if entries[object]?.isEmpty == true { entries[object] = nil }
    }
  }

  /// How many objects are watched; for tests of what is left behind.
  static var count: Int { entries.withLock { $0.count } }
}
