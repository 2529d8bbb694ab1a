// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

// HOW A KEY PATH IS WATCHED WITHOUT A RUNTIME THAT KNOWS PROPERTIES
//
// Nothing can be looked up by a key path: `\Sub.name` and `\Base.name` are different ones, although
// they are one property, and a computed property has no storage to attach to. So the property is
// read once while the thread notes what its getter reads: each `@Watched` property and each default
// says "I was read" (`ObservableSource`). The observation attaches itself to those. Inherited, overridden
// and computed properties need nothing of their own, and a getter that reads other things after a
// change is followed, because every reading is noted again.
//
//   reading     mark the source (a count of its changes), then read the value
//   attaching   the source compares its count with the mark: a change in between is told at once,
//               so that none is lost between reading and attaching
//
// A getter that nobody tracks pays one load of a word that is zero.

/// How many readings are being tracked, in all threads.
@usableFromInline let accessTrackers = Atomic<Int>(0)

/// Something a getter can read and that can change.
protocol ObservableSource: AnyObject, Sendable {
  /// Whether it changes on threads that are not its owner's.
  var isCrossThread: Bool { get }
  /// How many changes there were. Asked before the value is read.
  func mark() -> Int
  /// Tells an observation of changes from now on.
  ///
  /// - Returns: Whether there was one since the mark.
  func add(_ observation: any Observation, since mark: Int) -> Bool
  func remove(_ observation: any Observation)
}

/// A source and its mark when it was read.
struct TrackedRead: Sendable {
  let source: any ObservableSource
  let mark: Int
}

/// Who reads what.
enum AccessTracker {
  private struct Reading {
    var accesses: [TrackedRead] = []
    var known: Set<ObjectIdentifier> = []
  }

  /// Readings under way, by thread; the innermost last.
  private static let readings = Mutex<[UInt64: [Reading]]>([:])

  /// Runs a getter and returns what it read.
  static func track<R>(_ body: () -> R) -> (result: R, accesses: [TrackedRead]) {
    let thread = OSThread.token
    accessTrackers.wrappingAdd(1, ordering: .relaxed)
    readings.withLock { $0[thread, default: []].append(Reading()) }
    let result = body()
    accessTrackers.wrappingSubtract(1, ordering: .relaxed)
    let accesses = readings.withLock { readings in
      let last = readings[thread]?.popLast()?.accesses ?? []
      if readings[thread]?.isEmpty == true { readings[thread] = nil }
      return last
    }
    return (result, accesses)
  }

  /// Notes that a source is about to be read.
  static func note(_ source: @autoclosure () -> any ObservableSource) {
    let thread = OSThread.token
    guard readings.withLock({ $0[thread] != nil }) else { return }
    // Outside the lock: a source may look into a file for its mark.
    let source = source()
    let mark = source.mark()
    readings.withLock { readings in
      guard let count = readings[thread]?.count else { return }
      guard readings[thread]![count - 1].known.insert(ObjectIdentifier(source)).inserted else {
        return
      }
      readings[thread]![count - 1].accesses.append(TrackedRead(source: source, mark: mark))
    }
  }
}
