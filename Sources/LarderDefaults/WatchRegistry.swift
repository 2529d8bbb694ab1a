// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The observations of each object. The registry retains neither: the sources retain an observation.
///
/// The cost of a lookup and of a removal does not depend on the number of observations of an object.
enum WatchRegistry {
  private struct Entry: Sendable {
    weak let observation: (any Observation)?
    let id: WatchID
  }

  private struct Watches: Sendable {
    /// The object; another object may have the address of a deallocated one.
    let owner: WeakUncheckedSendable<AnyObject>
    var entries: [UInt64: Entry] = [:]
    var numbers: [WatchID: Set<UInt64>] = [:]
  }

  private static let objects = Mutex<[ObjectIdentifier: Watches]>([:])

  /// Returns the observations of an object, the oldest first: all, or those with an identifier.
  ///
  /// - Parameter includingGone: Whether to include observations of an object that is being
  ///   deallocated, such as one that searches for them in its `deinit`.
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

  /// Returns a number that no observation had before. Addresses are reused and would be ambiguous.
  static func newNumber() -> UInt64 {
    lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
  }

  /// Returns the number of observations of an object, for tests of leaks.
  static func count(of object: AnyObject) -> Int {
    objects.withLock { $0[ObjectIdentifier(object)]?.entries.count ?? 0 }
  }
}
