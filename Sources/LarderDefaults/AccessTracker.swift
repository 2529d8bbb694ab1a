// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

// OBSERVING A KEY PATH WITHOUT A RUNTIME THAT DESCRIBES PROPERTIES
//
// A key path cannot serve as a lookup key: `\Sub.name` and `\Base.name` are different key paths of
// one property, and a computed property has no storage to attach to. So the property is read once
// while the thread records the sources that its getter reads: each `@Watched` property and each
// default reports its read (`ObservableSource`). The observation attaches itself to these sources.
// Inherited, overridden and computed properties need no additional code, and a getter that reads
// other sources after a change is followed, because every read records the sources again.
//
//   reading     mark the source (a count of its changes), then read the value
//   attaching   the source compares its count with the mark and reports a change in between at
//               once, so that no change is lost between reading and attaching
//
// An untracked getter costs one load of a word that is zero.

/// The number of tracked reads in progress, in all threads.
@usableFromInline let accessTrackers = Atomic<Int>(0)

/// A source of values that a getter can read and that can change.
protocol ObservableSource: AnyObject, Sendable {
  /// Whether the source changes on threads other than its owner's.
  var isCrossThread: Bool { get }
  /// Returns the number of changes so far. The caller reads the value after this call.
  func mark() -> Int
  /// Adds an observation, which is notified of later changes.
  ///
  /// - Returns: Whether the source has changed since the mark.
  func add(_ observation: any Observation, since mark: Int) -> Bool
  func remove(_ observation: any Observation)
}

/// A source and its mark from before the read.
struct TrackedRead: Sendable {
  let source: any ObservableSource
  let mark: Int
}

/// The tracked reads of all threads.
enum AccessTracker {
  private struct Reading {
    var accesses: [TrackedRead] = []
    var known: Set<ObjectIdentifier> = []
  }

  /// The tracked reads in progress, by thread; the innermost last.
  private static let readings = Mutex<[UInt64: [Reading]]>([:])

  /// Runs a getter and returns its result and the sources that it read.
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

  /// Records that the calling thread is about to read a source.
  static func note(_ source: @autoclosure () -> any ObservableSource) {
    let thread = OSThread.token
    guard readings.withLock({ $0[thread] != nil }) else { return }
    // Outside the lock: a source may read a file for its mark.
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
