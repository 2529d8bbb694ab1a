// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The watches of one source, in the order they came.
///
/// A watch of an object that has gone says so only when it is asked, and a source that lives long and
/// changes seldom would keep them all. So the list is swept when it has twice the watches that were
/// left by the sweep before: it never has more than twice the living ones and a few, and adding one
/// costs the same however many there are.
///
/// Asking whether an object is there holds it for a moment, and its `deinit` may be anything: sweeping
/// is done by the owner, outside of its lock, in the steps `startSweep`, `isOver`, `remove`.
struct WatchList: Sendable {
  private var slots: [(any Observation)?] = []
  private var positions: [ObjectIdentifier: Int] = [:]
  private var sweepCount = WatchList.fewest

  private static let fewest = 16

  var isEmpty: Bool { positions.isEmpty }
  var count: Int { positions.count }
  /// The oldest first.
  var all: [any Observation] { slots.compactMap { $0 } }

  /// Adds a watch unless it is there.
  mutating func add(_ observation: any Observation) {
    let id = ObjectIdentifier(observation)
    guard positions[id] == nil else { return }
    positions[id] = slots.count
    slots.append(observation)
  }

  /// Removes a watch. What is returned is to be let go of outside of the lock.
  mutating func remove(_ observation: any Observation) -> (any Observation)? {
    guard let position = positions.removeValue(forKey: ObjectIdentifier(observation)) else {
      return nil
    }
    defer {
      slots[position] = nil
      if slots.count > 2 * positions.count + WatchList.fewest { closeGaps() }
    }
    return slots[position]
  }

  /// Removes all.
  mutating func removeAll() -> [any Observation] {
    defer { self = WatchList() }
    return all
  }

  /// What has to be asked whether it is over; `nil`: it is not time yet.
  mutating func startSweep() -> [any Observation]? {
    guard count >= sweepCount else { return nil }
    sweepCount = .max
    return all
  }

  /// Ends what ``startSweep()`` began, after what is over was removed.
  mutating func endSweep() { sweepCount = max(WatchList.fewest, 2 * count) }

  private mutating func closeGaps() {
    slots = slots.filter { $0 != nil }
    for (position, observation) in slots.enumerated() {
      positions[ObjectIdentifier(observation!)] = position
    }
  }
}
