// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The observations of one source, in the order of their registration.
///
/// An observation of a deallocated object is found only by a check, so a source that lives long and
/// changes rarely would retain all of them. The list is swept when it has twice the observations that
/// the previous sweep left: it never has more than twice the live ones and 16 more, and the amortised
/// cost of adding one is constant.
///
/// The check retains the object briefly, so it may run the object's `deinit`, which is user code. The
/// owner therefore sweeps outside its lock, in the steps `startSweep`, `isOver`, `remove`.
struct WatchList: Sendable {
  private var slots: [(any Observation)?] = []
  private var positions: [ObjectIdentifier: Int] = [:]
  private var sweepCount = WatchList.fewest

  private static let fewest = 16

  var isEmpty: Bool { positions.isEmpty }
  var count: Int { positions.count }
  /// The oldest first.
  var all: [any Observation] { slots.compactMap { $0 } }

  /// Adds an observation unless the list contains it.
  mutating func add(_ observation: any Observation) {
    let id = ObjectIdentifier(observation)
    guard positions[id] == nil else { return }
    positions[id] = slots.count
    slots.append(observation)
  }

  /// Removes an observation and returns it. The caller releases it outside the lock.
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

  /// Returns the observations to check for their end, or `nil` if no sweep is due.
  mutating func startSweep() -> [any Observation]? {
    guard count >= sweepCount else { return nil }
    sweepCount = .max
    return all
  }

  /// Ends the sweep of ``startSweep()``, after the ended observations were removed.
  mutating func endSweep() { sweepCount = max(WatchList.fewest, 2 * count) }

  private mutating func closeGaps() {
    slots = slots.filter { $0 != nil }
    for (position, observation) in slots.enumerated() {
      positions[ObjectIdentifier(observation!)] = position
    }
  }
}
