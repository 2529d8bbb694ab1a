// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Synchronization

// THE BOARD
//
// A small mapped file that outlives every killed process: what was handed out, what was
// acknowledged, who is alive, what was found. All words are 64 bits, native; a group of eight is a
// cache line.
//
//     line    0        totals: operations, reads, violations, stop, clock, hits
//     lines   1 …  63  workers, one a slot: heartbeat
//            64 … 127  ledger keys: issued, acknowledged, newest removal issued, earliest deadline
//           128 … 143  flight keys: version, invalidated, computing process
//           144 … 151  counters: issued, acknowledged
//           160 … 255  objects, see `StormOracle+Objects.swift`
//           256 … 575  collections and facades, see `StormOracle+Lanes.swift`
//
// A word is raised before what it announces is done (issued) or after (acknowledged), so a reader
// that looks before its read, and again after it, knows what it may see.

/// What the processes of a storm know of each other outside the store.
final class StormOracle: Sendable {
  enum Total: Int {
    case operations = 0
    case reads, violations, stop, clock
  }

  enum Ledger: Int {
    case issued = 0
    case acknowledged, removalIssued, deadline
  }

  enum Flight: Int {
    case version = 0
    case invalidated, computing
  }

  enum Tally: Int {
    case issued = 0
    case acknowledged
  }

  static let size = 36_864
  static let workerCount = 63
  static let ledgerCount = 64
  static let flightCount = 16
  static let tallyCount = 8

  private let region: MappedRegion

  init(path: String) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < StormOracle.size { try file.preallocate(StormOracle.size) }
    region = try MappedRegion(sharing: file, count: StormOracle.size)
  }

  func word(_ line: Int, _ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    precondition(
      line >= 0 && line < StormOracle.size / 64 && index < 8, "no such word on the board")
    return unsafe (region.base + line * 64 + index * 8)
      .assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  // MARK: Totals

  func add(_ total: Total, _ amount: UInt64 = 1) {
    unsafe word(0, total.rawValue).pointee.wrappingAdd(amount, ordering: .relaxed)
  }

  func value(_ total: Total) -> UInt64 {
    unsafe word(0, total.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func stop() { unsafe word(0, Total.stop.rawValue).pointee.store(1, ordering: .releasing) }
  var isOver: Bool { unsafe word(0, Total.stop.rawValue).pointee.load(ordering: .relaxed) != 0 }

  /// The time of stores that run on the board's clock.
  var clock: Int64 { Int64(value(.clock)) }

  // MARK: Workers

  func beat(_ worker: Int) {
    unsafe word(1 + worker, 0).pointee.store(
      Clocks.monotonicNanoseconds(), ordering: .relaxed)
  }

  func lastBeat(_ worker: Int) -> UInt64 {
    unsafe word(1 + worker, 0).pointee.load(ordering: .relaxed)
  }

  // MARK: Keys

  func ledger(_ key: Int, _ field: Ledger) -> UInt64 {
    unsafe word(64 + key, field.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func issue(_ key: Int) -> UInt64 {
    unsafe word(64 + key, 0).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
  }

  func raise(_ key: Int, _ field: Ledger, to value: UInt64) {
    unsafe word(64 + key, field.rawValue).pointee.max(value, ordering: .sequentiallyConsistent)
  }

  /// Before a write with a deadline: nothing in force expires before this.
  func lowerDeadline(_ key: Int, to deadline: UInt64) {
    let word = unsafe word(64 + key, Ledger.deadline.rawValue)
    if unsafe word.pointee.load(ordering: .sequentiallyConsistent) == 0 { return }
    unsafe word.pointee.min(deadline, ordering: .sequentiallyConsistent)
  }

  func setDeadline(_ key: Int, to deadline: UInt64) {
    unsafe word(64 + key, Ledger.deadline.rawValue).pointee.store(
      deadline, ordering: .sequentiallyConsistent)
  }

  func flight(_ key: Int, _ field: Flight) -> UInt64 {
    unsafe word(128 + key, field.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func nextVersion(_ key: Int) -> UInt64 {
    unsafe word(128 + key, 0).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
  }

  func raiseInvalidated(_ key: Int, to version: UInt64) {
    unsafe word(128 + key, Flight.invalidated.rawValue).pointee.max(
      version, ordering: .sequentiallyConsistent)
  }

  /// Puts a process into the computing word.
  ///
  /// - Returns: Who was there before; zero: nobody.
  func enterComputation(_ key: Int, pid: UInt64) -> UInt64 {
    unsafe word(128 + key, Flight.computing.rawValue).pointee.exchange(
      pid, ordering: .sequentiallyConsistent)
  }

  func leaveComputation(_ key: Int, pid: UInt64) {
    _ = unsafe word(128 + key, Flight.computing.rawValue).pointee.compareExchange(
      expected: pid, desired: 0, ordering: .sequentiallyConsistent)
  }

  func tally(_ key: Int, _ field: Tally) -> UInt64 {
    unsafe word(144 + key, field.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func addTally(_ key: Int, _ field: Tally) {
    unsafe word(144 + key, field.rawValue).pointee.wrappingAdd(
      1, ordering: .sequentiallyConsistent)
  }
}
