// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// Which watches an object has. It holds neither: a watch is held by what it is attached to.
///
/// Looking up and removing take no longer the more watches an object has, so that an object that
/// everybody watches is no burden to the last.
enum WatchRegistry {
  private struct Entry: Sendable {
    weak let observation: (any Observation)?
    let id: WatchID
  }

  private struct Watches: Sendable {
    /// Whose they are: another object may be where a former one was.
    let owner: WeakUncheckedSendable<AnyObject>
    var entries: [UInt64: Entry] = [:]
    var numbers: [WatchID: Set<UInt64>] = [:]
  }

  private static let objects = Mutex<[ObjectIdentifier: Watches]>([:])

  /// The watches of an object, the oldest first: all, or those with an id.
  ///
  /// - Parameter includingGone: Also those whose object is gone. An object that looks for its
  ///   watches in its own `deinit` is.
  static func observations(
    of object: AnyObject, id: WatchID? = nil, includingGone: Bool = false
  ) -> [any Observation] {
    let known = objects.withLock { objects -> [(UInt64, Entry)] in
      guard let watches = objects[ObjectIdentifier(object)] else { return [] }
      guard let id else { return watches.entries.map { ($0, $1) } }
      return (watches.numbers[id] ?? []).compactMap { number in
        watches.entries[number].map { (number, $0) }
      }
    }
    return known.sorted { $0.0 < $1.0 }.compactMap(\.1.observation).filter {
      $0.isActive && ($0.watches(object) || includingGone && $0.isGone)
    }
  }

  static func add(_ observation: any Observation, of object: AnyObject) {
    let entry = Entry(observation: observation, id: observation.id)
    let number = observation.number
    let owner = WeakUncheckedSendable<AnyObject>(object: object)
    let place = ObjectIdentifier(object)
    objects.withLock { objects in
      if objects[place] == nil || objects[place]!.owner.object !== owner.object {
        objects[place] = Watches(owner: owner)
      }
      objects[place]!.entries[number] = entry
      objects[place]!.numbers[entry.id, default: []].insert(number)
    }
  }

  static func remove(number: UInt64, id: WatchID, of object: ObjectIdentifier) {
    objects.withLock { objects in
      guard objects[object]?.entries.removeValue(forKey: number) != nil else { return }
      objects[object]!.numbers[id]?.remove(number)
      if objects[object]!.numbers[id]?.isEmpty == true { objects[object]!.numbers[id] = nil }
      if objects[object]!.entries.isEmpty { objects[object] = nil }
    }
  }

  private static let lastNumber = Atomic<UInt64>(0)

  /// A number no watch had before: addresses are used again, and would name another watch.
  static func newNumber() -> UInt64 {
    lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
  }

  /// How many watches of an object are known; for tests of what is left behind.
  static func count(of object: AnyObject) -> Int {
    objects.withLock { $0[ObjectIdentifier(object)]?.entries.count ?? 0 }
  }
}
